"""Drafted calls (SpecTools, O2) in every registered call format: verified at once, and no token changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentrt.calls import ToolCall, ToolCallFormat, find_tool_call_format, tool_call_formats
from agentrt.calls.registry import BUILT_IN_FORMATS
from agentrt.runtime import Finished, Generation, LocalRuntime
from agentrt.runtime.engine import output_processor
from tests.agentrt.calls.installed import ACME, InstallFormat
from tests.runtime.conftest import Gate

QUESTION = [{"role": "user", "content": "What is the weather in Oslo?"}]
CALL = ToolCall("get_weather", {"city": "Oslo"})
OUTPUT = "12 C, rain"


class Script:
    """Makes the model begin its answer with given tokens; every later token is its own.

    The n-th token that is sampled for a request is the n-th of the script, whatever was drafted: a token that
    the engine takes from a draft without sampling it, or samples twice, changes the answer.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._begun: dict[Any, int] = {}  # by sampler, of which there is one a request
        self._sample_batch = output_processor.sample_batch

    def __call__(self, samplers: Any, logits: Any) -> list[int | Exception]:
        logits = logits.copy()
        for row, sampler in enumerate(samplers):
            place = self._begun.get(sampler, 0)
            if sampler is not None and place < len(self.tokens):
                logits[row, self.tokens[place]] = 1e9
                self._begun[sampler] = place + 1
        return self._sample_batch(samplers, logits)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script()
    monkeypatch.setattr(output_processor, "sample_batch", script)
    return script


@pytest.fixture(params=[*(format.name for format in BUILT_IN_FORMATS), "acme"])
def format(request: pytest.FixtureRequest, install_format: InstallFormat) -> ToolCallFormat:
    install_format(ACME)
    assert len(tool_call_formats()) == len(BUILT_IN_FORMATS) + 1
    return find_tool_call_format(request.param)


def answer(runtime: LocalRuntime, gate: Gate, options: Any, *, submitted: bool) -> Generation:
    async def main() -> Any:
        stream = await runtime.start(QUESTION, **options)
        if submitted:
            assert stream.tool_outputs.put(CALL.name, CALL.arguments, OUTPUT)
        gate.open()
        return [event async for event in stream.events()]

    event = asyncio.run(main())[-1]
    assert isinstance(event, Finished)
    return event.generation


@pytest.mark.check
@pytest.mark.usefixtures("whole_drafts")  # how long a pass takes on this machine decides otherwise
def test_a_drafted_call_takes_one_pass_and_changes_no_token(
    open_runtime: Callable[..., LocalRuntime],
    hold: Callable[[LocalRuntime], Gate],
    monkeypatch: pytest.MonkeyPatch,
    script: Script,
    weather_tool: dict[str, Any],
    format: ToolCallFormat,
) -> None:
    monkeypatch.setattr("agentrt.runtime.local.assembly.detect_tool_call_format", lambda *_: format)
    runtime = open_runtime(constrain_tool_calls=False, dynamic_quantization_group_size=0)
    assert runtime.call_format is format
    cached = runtime._renderer.tokenize_call(CALL, OUTPUT)
    options: dict[str, Any] = {"tools": [weather_tool], "max_tokens": 250}
    script.tokens = list(cached.tokens)
    for sampling in ({"temperature": 0.8, "seed": 3}, {"temperature": 0.0}):
        plain = answer(runtime, hold(runtime), options | sampling, submitted=False)
        assert plain.finish_reason == "tool_calls"
        assert [(made.name, made.arguments) for made in plain.tool_calls] == [(CALL.name, CALL.arguments)]
        before = runtime.statistics().engine
        answered = answer(runtime, hold(runtime), options | sampling, submitted=True)
        after = runtime.statistics().engine
        assert [(one.call.name, one.output) for one in answered.answered_calls] == [(CALL.name, OUTPUT)]
        assert answered.token_ids[: len(cached.tokens)] == plain.token_ids == cached.tokens
        accepted = after.accepted_tokens - before.accepted_tokens
        assert accepted == after.drafted_tokens - before.drafted_tokens == len(cached.tokens) - cached.opening
    # The rest of the answer rests on the keys and values of the drafted tokens.
    script.tokens = []
    history = [*QUESTION, made_by(plain), {"role": "tool", "tool_call_id": "c", "content": OUTPUT}]
    assert answered.text.endswith(runtime.generate(history, **options).text)


def made_by(generation: Generation) -> dict[str, Any]:
    (call,) = generation.tool_calls
    function = {"name": call.name, "arguments": call.arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
