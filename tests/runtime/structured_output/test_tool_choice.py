from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from agentrt.calls import TextDelta
from agentrt.errors import InvalidRequestError
from agentrt.runtime import Finished, LocalRuntime, LogprobsDelta

HELLO = [{"role": "user", "content": "Hello!"}]
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_call_is_made_where_it_must_be(
    runtime: LocalRuntime, weather_tool: dict[str, Any], choice: Any
) -> None:
    generation = runtime.generate(HELLO, tools=[weather_tool], tool_choice=choice, max_tokens=60)
    assert [call.name for call in generation.tool_calls][:1] == ["get_weather"]
    assert set(generation.tool_calls[0].arguments) == {"city"}


def test_no_call_is_made_where_none_may_be(runtime: LocalRuntime, weather_tool: dict[str, Any]) -> None:
    asked = [{"role": "user", "content": "What is the weather in Ljubljana?"}]
    assert runtime.generate(asked, tools=[weather_tool], max_tokens=60).tool_calls
    assert not runtime.generate(asked, tools=[weather_tool], tool_choice="none", max_tokens=60).tool_calls


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "maybe", "tools": True}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}, "tools": True}, "tool_choice"),
        ({"tool_choice": {"type": "function"}, "tools": True}, "tool_choice"),
        ({"parallel_tool_calls": "yes"}, "parallel_tool_calls"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(
    runtime: LocalRuntime, weather_tool: dict[str, Any], options: dict[str, Any], field: str
) -> None:
    if "tools" in options:
        options = {**options, "tools": [weather_tool]}
    with pytest.raises(InvalidRequestError) as raised:
        runtime.generate(HELLO, max_tokens=1, **options)
    assert raised.value.field == field


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_an_answer_of_a_schema(runtime: LocalRuntime, temperature: float) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}, "ok": {"type": "boolean"}},
        "required": ["n", "ok"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for seed in range(4):
        generation = runtime.generate(
            HELLO, response_format=wanted, max_tokens=64, temperature=temperature, seed=seed
        )
        answer = json.loads(generation.text)
        assert generation.finish_reason == "stop"
        assert isinstance(answer["ok"], bool)
        assert 1 <= answer["n"] <= 9


def test_probabilities_of_tokens(runtime: LocalRuntime) -> None:
    plain = runtime.generate(HELLO, max_tokens=12)
    told = runtime.generate(HELLO, max_tokens=12, logprobs=3)
    assert plain.logprobs == ()
    assert told.token_ids == plain.token_ids
    assert [entry.token for entry in told.logprobs] == list(told.token_ids)
    for entry in told.logprobs:
        assert entry.top[0] == (entry.token, entry.logprob)  # greedy takes the likeliest
        assert len(entry.top) == 3
        assert sum(math.exp(logprob) for _, logprob in entry.top) <= 1.0 + 1e-9

    async def streamed() -> list[Any]:
        return [event async for event in runtime.stream(HELLO, max_tokens=12, logprobs=3)]

    events = asyncio.run(streamed())
    assert [entry for event in events if isinstance(event, LogprobsDelta) for entry in event.tokens] == list(
        told.logprobs
    )
    # What a text is made of is known no later than the text.
    assert isinstance(events[0], LogprobsDelta)
    assert isinstance(events[1], TextDelta)
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.generation.logprobs == told.logprobs
