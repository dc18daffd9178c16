"""Calls of recorded answers, as clients of all interfaces read them: while they are written, and once."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.engine import output_processor
from agentrt.runtime.engine.sampler import sample_batch
from tests.patience import PATIENCE_S
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import WEATHER

Delta = tuple[str, str]
"""What a client reads: ``call`` and a name, ``arguments`` and their next part, ``text``, or ``end``."""
Read = Callable[[Running, Any, bool], Iterator[Delta]]
Say = Callable[..., int]

TOWN = "a town in the north of Norway"
FENCED = f'```json\n{{\n  "name": "get_weather",\n  "arguments": {{\n    "city": "{TOWN}"\n  }}\n}}\n```'
"""As Qwen2.5-Coder-0.5B writes a call."""
OSLO = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
ROME = OSLO.replace("Oslo", "Rome")


@pytest.fixture
def say(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Makes the tokens of a text, which it counts, the likeliest ones of the next answer.

    At half of them the model waits until the client has ``read`` something.
    """

    def say(text: str, read: threading.Event | None = None) -> int:
        tokens = runtime.token_ids(text)
        places = itertools.count()
        likely = itertools.chain(tokens, itertools.repeat(min(runtime._tokenizer.end_token_ids)))

        def sample(samplers: Any, logits: Any) -> Any:
            if next(places) == len(tokens) // 2 and read is not None:
                assert read.wait(PATIENCE_S), "nothing was read"
            changed = logits.copy()
            changed[:, next(likely)] = logits.max() + 100
            return sample_batch(samplers, changed)

        monkeypatch.setattr(output_processor, "sample_batch", sample)
        return len(tokens)

    return say


def chat(server: Running, tool: Any, parallel: bool) -> Iterator[Delta]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        chunks: Any = client.chat.completions.create(
            model="nano", messages=WEATHER, tools=[tool], parallel_tool_calls=parallel, stream=True
        )
        for chunk in chunks:
            (choice,) = chunk.choices
            if choice.delta.content:
                yield "text", choice.delta.content
            for call in choice.delta.tool_calls or ():
                yield ("call", call.function.name) if call.id else ("arguments", call.function.arguments)
            if choice.finish_reason:
                yield "end", choice.finish_reason


def responses(server: Running, tool: Any, parallel: bool) -> Iterator[Delta]:
    described: Any = [{"type": "function", **tool["function"]}]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        events: Any = client.responses.create(
            model="nano", input=WEATHER, tools=described, parallel_tool_calls=parallel, stream=True
        )
        for event in events:
            if event.type == "response.output_item.added" and event.item.type == "function_call":
                yield "call", event.item.name
            elif event.type == "response.function_call_arguments.delta":
                yield "arguments", event.delta
            elif event.type == "response.output_text.delta":
                yield "text", event.delta
            elif event.type == "response.completed":
                yield "end", "tool_calls"


def messages(server: Running, tool: Any, parallel: bool) -> Iterator[Delta]:
    function = tool["function"]
    described: Any = [{"name": function["name"], "input_schema": function["parameters"]}]
    with anthropic.Anthropic(base_url=server.url, api_key="none") as client:
        events: Any = client.messages.create(
            model="nano",
            messages=WEATHER,
            tools=described,
            tool_choice={"type": "auto", "disable_parallel_tool_use": not parallel},
            max_tokens=400,
            stream=True,
        )
        for event in events:
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                yield "call", event.content_block.name
            elif event.type == "content_block_delta":
                delta = event.delta
                is_call = delta.type == "input_json_delta"
                yield ("arguments", delta.partial_json) if is_call else ("text", delta.text)
            elif event.type == "message_delta":
                yield "end", event.delta.stop_reason.replace("tool_use", "tool_calls")


interfaces = pytest.mark.parametrize("read", [chat, responses, messages])


def calls_of(deltas: list[Delta]) -> list[Any]:
    """The arguments of the calls, in order."""
    texts: list[str] = []
    for kind, text in deltas:
        if kind == "call":
            assert text == "get_weather"
            texts.append("")
        elif kind == "arguments":
            texts[-1] += text
    return [json.loads(text) for text in texts]


@interfaces
@pytest.mark.parametrize("answer", [FENCED, f"[{FENCED[8:-4]}]"], ids=["fence", "array"])
def test_a_call_without_tags_is_read_while_it_is_written(
    server: Running, say: Say, weather_tool: Any, read: Read, answer: str
) -> None:
    begun = threading.Event()
    say(answer, begun)
    deltas = []
    for delta in read(server, weather_tool, True):
        deltas.append(delta)
        if delta[0] == "arguments":
            begun.set()  # before the model writes the other half of the call
    assert calls_of(deltas) == [{"city": TOWN}]
    assert deltas[0] == ("call", "get_weather")
    assert {kind for kind, _ in deltas[1:-1]} == {"arguments"}
    assert deltas[-1] == ("end", "tool_calls")


@interfaces
def test_a_repeated_call_is_not_sent_and_ends_the_answer(
    server: Running, runtime: LocalRuntime, say: Say, weather_tool: Any, read: Read
) -> None:
    written = say("\n".join([OSLO, ROME, *[OSLO.replace(": {", ":{ ")] * 9]))
    before = runtime.statistics().engine.sampled_tokens
    deltas = list(read(server, weather_tool, True))
    assert calls_of(deltas) == [{"city": "Oslo"}, {"city": "Rome"}]
    assert {kind for kind, _ in deltas[:-1]} == {"call", "arguments"}
    assert deltas[-1] == ("end", "tool_calls")
    assert runtime.statistics().engine.sampled_tokens - before < written / 2


@interfaces
@pytest.mark.parametrize(("parallel", "cities"), [(True, ["Oslo", "Rome"]), (False, ["Oslo"])])
def test_calls_between_tags_of_another_format_are_bounded_as_well(
    server: Running,
    runtime: LocalRuntime,
    say: Say,
    weather_tool: Any,
    read: Read,
    parallel: bool,
    cities: list[str],
) -> None:
    written = say("".join(f"<tools>\n{call}\n</tools>" for call in [OSLO, *[ROME] * 9]))
    before = runtime.statistics().engine.sampled_tokens
    assert calls_of(list(read(server, weather_tool, parallel))) == [{"city": city} for city in cities]
    assert runtime.statistics().engine.sampled_tokens - before < written / 2


def test_a_repeated_call_ends_an_answer_that_is_not_streamed(
    runtime: LocalRuntime, say: Say, weather_tool: Any
) -> None:
    written = say("\n".join([OSLO] * 11))
    answer = runtime.generate(WEATHER, tools=[weather_tool], max_tokens=400)
    assert [call.arguments for call in answer.tool_calls] == [{"city": "Oslo"}]
    assert (answer.text, answer.finish_reason) == ("", "tool_calls")
    assert len(answer.token_ids) < written / 4
