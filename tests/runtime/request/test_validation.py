"""Messages, tools and sampling parameters: each wrong value is refused by its name."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import InvalidRequestError
from agentrt.runtime.request.sampling_params import SamplingParams
from agentrt.runtime.request.validation import (
    MAX_TOLD_TOOLS,
    MAX_TOOL_SECONDS,
    check_messages,
    check_tool_seconds,
    check_tools,
)

USER = {"role": "user", "content": "hi"}


def call(arguments: object = "{}", name: object = "look") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": function}


def assistant(*calls: Any, content: object = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def test_a_whole_conversation() -> None:
    messages = check_messages(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            assistant(call('{"what": "x"}'), call({"what": ["y", None]}), call("")),
            {"role": "tool", "tool_call_id": "call_1", "content": ""},
            {"role": "assistant", "content": "done", "tool_calls": None},
        ]
    )
    assert messages[0] == {"role": "system", "content": "Be brief."}
    assert messages[1] == {"role": "user", "content": "ab"}
    assert messages[2]["content"] == ""
    assert [c["function"]["arguments"] for c in messages[2]["tool_calls"]] == [
        {"what": "x"}, {"what": ["y", None]}, {},
    ]  # fmt: skip
    assert messages[2]["tool_calls"][0]["id"] == "call_1"
    assert messages[3] == {"role": "tool", "tool_call_id": "call_1", "content": ""}
    assert messages[4] == {"role": "assistant", "content": "done"}


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        (None, "messages"), ("hi", "messages"), ([], "messages"), ({}, "messages"), (["hi"], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"), ([{"role": "wizard", "content": "x"}], "messages[0].role"),
        ([{"role": ["user"], "content": "x"}], "messages[0].role"),
        ([USER, {"role": "user"}], "messages[1].content"),
        ([{"role": "user", "content": 3}], "messages[0].content"),
        ([{"role": "user", "content": ""}], "messages[0].content"),
        ([{"role": "user", "content": " \n"}], "messages[0].content"),
        ([{"role": "user", "content": b"x"}], "messages[0].content"),
        ([{"role": "user", "content": "\ud800"}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text", "text": 1}]}], "messages[0].content[0].text"),
        ([{"role": "assistant", "content": None}], "messages[0].content"),
        ([USER | {"tool_calls": [call()]}], "messages[0].tool_calls"),
        ([assistant() | {"tool_calls": "x"}], "messages[0].tool_calls"),
        ([assistant("x")], "messages[0].tool_calls[0]"),
        ([assistant({"function": 1})], "messages[0].tool_calls[0]"),
        ([assistant(call(name=""))], "messages[0].tool_calls[0].function.name"),
        ([assistant(call("{"))], "messages[0].tool_calls[0].function.arguments"),
        ([assistant(call("[" * 100_000))], "messages[0].tool_calls[0].function.arguments"),
        ([assistant(call("[]"))], "messages[0].tool_calls[0].function.arguments"),
        ([assistant(call({"x": math.nan}))], "messages[0].tool_calls[0].function.arguments"),
        ([assistant(call({"x": object()}))], "messages[0].tool_calls[0].function.arguments"),
        ([assistant(call('{"x": 1' + "0" * 5000 + "}"))], "messages[0].tool_calls[0].function.arguments"),
        ([assistant(call({"x": 10**5000}))], "messages[0].tool_calls[0].function.arguments"),
        ([assistant(call({"x": 10**400}))], "messages[0].tool_calls[0].function.arguments"),
        ([{"role": "tool", "content": "x", "tool_call_id": 3}], "messages[0].tool_call_id"),
    ],
)  # fmt: skip
def test_wrong_messages_are_named(messages: object, field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_messages(messages)
    assert caught.value.field == field
    assert str(caught.value).endswith(".")
    assert "sys." not in str(caught.value)


def tool(**changes: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "look"} | changes}


LOOP: dict[str, Any] = {"type": "object"}
LOOP["properties"] = {"again": LOOP}


@pytest.mark.parametrize(
    ("tools", "field"),
    [
        ("look", "tools"), (3, "tools"), (["look"], "tools[0]"), ([{"type": "web"}], "tools[0]"),
        ([{"type": "function"}], "tools[0]"), ([tool(name=None)], "tools[0].function.name"),
        ([tool(), tool()], "tools[1].function.name"),
        ([tool(description=3)], "tools[0].function.description"),
        ([tool(parameters=[])], "tools[0].function.parameters"),
        ([tool(parameters={"type": "string"})], "tools[0].function.parameters"),
        ([tool(parameters={"properties": []})], "tools[0].function.parameters"),
        ([tool(parameters=LOOP)], "tools[0]"), ([tool(parameters={"default": object})], "tools[0]"),
        ([tool(parameters={"default": "\ud800"})], "tools[0]"),
        ([tool(parameters={"default": 10**5000})], "tools[0]"),
        ([tool(parameters={"default": -(10**400)})], "tools[0]"),
    ],
)  # fmt: skip
def test_wrong_tools_are_named(tools: object, field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_tools(tools)
    assert caught.value.field == field
    assert "sys." not in str(caught.value)


def test_that_a_tool_is_strict_is_not_for_the_prompt() -> None:
    function = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    given = {"type": "function", "function": {**function, "strict": True}}
    assert check_tools([given]) == [{"type": "function", "function": function}]
    assert given["function"]["strict"] is True


def test_good_tools() -> None:
    assert check_tools(None) is None
    assert check_tools([]) is None
    full = tool(description="d", parameters={"type": "object", "properties": {"x": {"type": "string"}}})
    assert check_tools([full, tool(name="other", parameters={})]) == [full, tool(name="other", parameters={})]


VOCABULARY = 50


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0), ("max_tokens", -1), ("max_tokens", 1.5), ("max_tokens", True),
        ("temperature", -0.1), ("temperature", math.nan), ("temperature", math.inf), ("temperature", 9e9),
        ("temperature", 10**400), ("temperature", "hot"),
        ("top_p", 0.0), ("top_p", 1.01), ("top_p", math.nan), ("top_k", -1),
        ("top_k", 1.0), ("min_p", -0.1), ("min_p", 1.1), ("repetition_penalty", 0.0),
        ("repetition_penalty", 5e-148), ("repetition_penalty", 100.1),
        ("repetition_penalty", -1.0), ("repetition_penalty", math.nan), ("seed", -1), ("seed", 2**63),
        ("frequency_penalty", -2.1), ("frequency_penalty", math.nan), ("frequency_penalty", None),
        ("presence_penalty", 2.1), ("presence_penalty", math.inf), ("presence_penalty", True),
        ("seed", 1.0), ("ignore_eos", 1), ("stop", ("",)), ("stop", ["a"]),
        ("stop", (1,)), ("stop", ("x",) * 17), ("stop", ("x" * 257,)),
        ("stop_token_ids", (1.0,)), ("stop_token_ids", (True,)), ("logprobs", 21),
        ("logprobs", True), ("logit_bias", {"1": 1.0}),
        ("logit_bias", {-1: 1.0}), ("logit_bias", {1: 101.0}), ("logit_bias", {1: math.nan}),
        ("logit_bias", [1]), ("logit_bias", dict.fromkeys(range(1025), 1.0)),
    ],
)  # fmt: skip
def test_values_out_of_range_are_named(field: str, value: object) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{field}: ") as caught:
        SamplingParams(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field


ANYTHING = (
    st.floats()
    | st.integers()
    | st.sampled_from([5e-324, 1e-46, 1e-307, 10**400, 2**63, True, None, "", "x", (), {}, [[]]])
)


@given(st.sampled_from([field.name for field in fields(SamplingParams)]), ANYTHING | st.lists(ANYTHING))
def test_any_value_is_accepted_or_refused_by_name(field: str, value: object) -> None:
    with suppress(InvalidRequestError):
        params = SamplingParams(**{field: value})  # type: ignore[arg-type]
        for number in (params.temperature, params.top_p, params.min_p, params.repetition_penalty,
                       params.frequency_penalty, params.presence_penalty):  # fmt: skip
            assert math.isfinite(number)


@pytest.mark.parametrize("field", ["max_tokens", "seed", "temperature", "top_p", "stop"])
def test_a_number_too_long_to_write_is_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{field}: "):
        SamplingParams(**{field: -(10**5000)})  # type: ignore[arg-type]


def test_token_ids_beyond_the_vocabulary() -> None:
    SamplingParams(logit_bias={49: 1.0}, stop_token_ids=(49,)).check_vocabulary(VOCABULARY)
    for params in (SamplingParams(logit_bias={50: 1.0}), SamplingParams(stop_token_ids=(-1,))):
        with pytest.raises(InvalidRequestError, match="0 to 49"):
            params.check_vocabulary(VOCABULARY)


def test_seconds_of_tools() -> None:
    assert check_tool_seconds(None) == {}
    assert check_tool_seconds({"a": 0, "b": MAX_TOOL_SECONDS}) == {"a": 0, "b": MAX_TOOL_SECONDS}
    wrong = [-1, math.nan, math.inf, True, "1", None, 10**400, MAX_TOOL_SECONDS + 1]
    for seconds in [
        *({"a": each} for each in wrong),
        {1: 1},
        [],
        1.0,
        dict.fromkeys(map(str, range(257)), 1),
    ]:
        with pytest.raises(InvalidRequestError) as caught:
            check_tool_seconds(seconds)
        assert caught.value.field == "tool_seconds"
    assert MAX_TOLD_TOOLS == 256
