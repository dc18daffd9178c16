"""Drafts that reach beyond the end of an answer, its calls, the KV arena or the context change no token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentrt.runtime import Generation, LocalRuntime
from tests.hypothesis_profiles import first_of
from tests.runtime.engine.test_engine import PROMPT, submit
from tests.runtime.engine.test_speculative_decoding import ScriptedDrafter

pytestmark = pytest.mark.usefixtures("whole_drafts")

TOKENS = 40
SHORT = PROMPT[:30]  # within one KV block, so that it is one chunk under any profile


def calls_of(generation: Generation) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in generation.tool_calls]


def plain_tokens(runtime: LocalRuntime) -> tuple[int, ...]:
    return submit(runtime, TOKENS, prompt=SHORT).output.result(30).token_ids


@pytest.mark.parametrize("wrong", [0, 7])
@pytest.mark.parametrize("place", [0, 1, 5, 20])
def test_an_end_token_inside_a_draft(runtime: LocalRuntime, place: int, wrong: int) -> None:
    script = plain_tokens(runtime)
    ends = frozenset({script[place]})
    expected = submit(runtime, TOKENS, prompt=SHORT, end_tokens=ends).output.result(30)
    drafter = ScriptedDrafter(script, 30, wrong)
    output = submit(runtime, TOKENS, prompt=SHORT, end_tokens=ends, drafter=drafter).output.result(30)
    assert output.token_ids == expected.token_ids == script[: script.index(script[place]) + 1]
    assert output.stop_reason == "stop"
    assert drafter.seen == list(output.token_ids[:-1])


@pytest.mark.parametrize("place", [1, 5, 20])
def test_a_stop_string_inside_a_draft(runtime: LocalRuntime, place: int) -> None:
    script = plain_tokens(runtime)
    stop = runtime._tokenizer.decode(script[place : place + 2])
    assert stop
    pieces: dict[bool, list[Any]] = {False: [], True: []}
    outputs = [
        submit(
            runtime,
            TOKENS,
            prompt=SHORT,
            stop=(stop,),
            drafter=ScriptedDrafter(script, 30) if drafts else None,
            listener=pieces[drafts].append,
        ).output.result(30)
        for drafts in (False, True)
    ]
    assert outputs[0].token_ids == outputs[1].token_ids
    assert len(outputs[0].token_ids) < TOKENS
    assert "".join(pieces[False]) == "".join(pieces[True])
    assert stop not in "".join(pieces[True])


@pytest.mark.parametrize("tokens", [1, 2, 3, 33])
def test_no_draft_goes_beyond_the_last_token(runtime: LocalRuntime, tokens: int, gate: Any) -> None:
    gate.open()
    script = plain_tokens(runtime)
    first = len(gate.steps)
    output = submit(runtime, tokens, prompt=SHORT, drafter=ScriptedDrafter(script, 1000)).output.result(30)
    assert output.token_ids == script[:tokens]
    drafts = [len(chunk.draft) for batch in gate.steps[first:] for chunk in batch]
    assert sum(drafts) <= max(0, tokens - 2)


@pytest.mark.parametrize("room", first_of([1, 0, 5]))
def test_drafts_end_with_the_arena(open_runtime: Callable[..., LocalRuntime], room: int) -> None:
    roomy = open_runtime()
    block_bytes = roomy.statistics().arena_bytes // roomy.statistics().blocks
    block_tokens = roomy.statistics().block_tokens
    prompt = SHORT[: block_tokens - 2]
    tokens = 2 * block_tokens - len(prompt) - room  # of two blocks, all but ``room``
    script = submit(roomy, tokens + 64, prompt=prompt).output.result(30).token_ids
    tight = open_runtime(memory_bytes=2 * block_bytes)
    assert tight.statistics().blocks == 2
    output = submit(tight, tokens, prompt=prompt, drafter=ScriptedDrafter(script, 1000)).output.result(30)
    assert output.token_ids == script[:tokens]
    assert tight.statistics().engine.accepted_tokens > 0


def test_drafts_that_need_blocks_of_others_are_not_verified(
    open_runtime: Callable[..., LocalRuntime],
) -> None:
    roomy = open_runtime()
    block_bytes = roomy.statistics().arena_bytes // roomy.statistics().blocks
    script = submit(roomy, TOKENS, prompt=SHORT).output.result(30).token_ids
    tight = open_runtime(memory_bytes=4 * block_bytes)
    requests = [submit(tight, TOKENS, prompt=SHORT, drafter=ScriptedDrafter(script, 1000)) for _ in range(4)]
    assert [request.output.result(60).token_ids for request in requests] == [script] * 4


def test_drafts_across_the_boundaries_of_a_call(
    open_runtime: Callable[..., LocalRuntime], weather_tool: dict[str, Any]
) -> None:
    question = [{"role": "user", "content": "What is the weather in Oslo? And in Bergen?"}]
    options: dict[str, Any] = {"tools": [weather_tool], "max_tokens": 96}
    expected = open_runtime().generate(question, **options)
    assert expected.tool_calls
    runtime = open_runtime(drafts=True)
    for _ in range(3):
        generation = runtime.generate(question, app="notes", **options)
        assert generation.token_ids == expected.token_ids
        assert calls_of(generation) == calls_of(expected)
        assert generation.finish_reason == expected.finish_reason
    assert runtime.statistics().engine.accepted_tokens > len(expected.token_ids) // 2
