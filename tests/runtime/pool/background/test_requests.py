"""A job is stored as a request of the responses API: it has the messages and options that it was made of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import Priority
from agentrt.errors import InvalidRequestError
from agentrt.runtime.pool.background.requests import response_request
from agentrt.runtime.pool.responses.items import ResponsesRequest
from agentrt.runtime.request.validation import plain_messages

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NAMES = st.text("abc_", min_size=1, max_size=6)
CALLS = st.builds(
    lambda id, name, arguments: {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    NAMES,
    NAMES,
    st.dictionaries(NAMES, TEXTS | st.integers(-9, 9), max_size=2).map(json.dumps),
)
MESSAGES = st.one_of(
    st.builds(lambda text: {"role": "system", "content": text}, TEXTS),
    st.builds(lambda text, name: {"role": "user", "content": f"a{text}", "name": name}, TEXTS, NAMES),
    st.builds(lambda text: {"role": "user", "content": [{"type": "text", "text": f"a{text}"}]}, TEXTS),
    st.builds(lambda text: {"role": "assistant", "content": text}, TEXTS),
    st.builds(
        lambda text, calls: {"role": "assistant", "content": text, "tool_calls": calls},
        TEXTS | st.none(),
        st.lists(CALLS, min_size=1, max_size=2),
    ),
    st.builds(lambda id, text: {"role": "tool", "tool_call_id": id, "content": text}, NAMES, TEXTS),
)
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "mail", "schema": {"type": "object"}}}
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "tools": st.just([TOOL]),
    "tool_choice": st.sampled_from(["auto", "none", {"type": "function", "function": {"name": "find"}}]),
    "parallel_tool_calls": st.booleans(),
    "response_format": st.sampled_from([SCHEMA, {"type": "json_object"}, {"type": "text"}]),
    "max_tokens": st.integers(1, 99),
    "temperature": st.sampled_from([0.0, 0.5]),
    "top_k": st.integers(0, 9),
    "min_p": st.just(0.1),
    "seed": st.integers(0, 9),
    "ignore_eos": st.booleans(),
    "stop": st.lists(TEXTS.filter(bool), max_size=2).map(tuple),
    "stop_token_ids": st.lists(st.integers(0, 9), max_size=2),
    "shared_prefix": st.booleans(),
}


@given(st.lists(MESSAGES, min_size=1, max_size=6), st.fixed_dictionaries({}, optional=OPTIONS))
def test_the_request_has_the_same_messages_and_options(messages: Any, options: Any) -> None:
    made = response_request(messages, options, {"mail": "7"})
    stored = json.loads(json.dumps(made.model_dump(mode="json", exclude_none=True)))
    request = ResponsesRequest.model_validate(stored)
    assert plain_messages(request.input_messages()) == plain_messages(messages)
    found = request.options()
    for name, value in options.items():
        if name == "response_format" and value["type"] == "json_schema":
            assert found["response_format"]["json_schema"]["schema"] == value["json_schema"]["schema"]
        else:
            assert found[name] == (list(value) if isinstance(value, tuple) else value), name
    assert (request.background, request.metadata) == (True, {"mail": "7"})


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"logprobs": 1}, "logprobs"),
        ({"deadline_s": 1.0}, "deadline_s"),
        ({"priority": Priority.REACTIVE}, "priority"),
        ({"tempreature": 1.0}, "tempreature"),
        ({"temperature": 9.0}, "temperature"),
        ({"max_tokens": "1"}, "max_tokens"),
    ],
)
def test_what_a_job_cannot_have_is_named(options: Any, field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        response_request([{"role": "user", "content": "Hello!"}], options, None)
    assert refused.value.field == field
