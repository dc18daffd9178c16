"""Numbers, shapes and sizes that no client should send: no server error, little work, and answers in JSON."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn, get_args

import httpx
import pytest
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.serving import tool_cache_route
from agentrt.runtime.serving.server import (
    chat,
    completions,
    contexts,
    embeddings,
    messages,
    ollama,
    responses,
    tokens,
)
from agentrt.runtime.serving.server.chat import ChatRequest
from tests.hypothesis_profiles import examples
from tests.runtime.serving.server.conftest import HELLO

ROUTERS = (
    *(chat.router, completions.router, contexts.router, embeddings.router, responses.router),
    *(messages.router, tokens.router, tool_cache_route.router, ollama.router),
)
ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
BODIES = {route.path: route.body_field for route in ROUTES if route.body_field is not None}
MANY = 5000
WRONG: list[Any] = [1, "", "x", None, [], {}, True, 1e300]


def hostile_values() -> Iterator[Any]:
    for item in WRONG:
        yield [item] * MANY
        yield {f"key {index}": item for index in range(MANY)}
        yield {str(index): item for index in range(MANY)}


def field_names(path: str) -> set[str]:
    field = BODIES[path]
    schema = field._type_adapter.json_schema()
    definitions = [schema, schema.get("items", {}), *schema.get("$defs", {}).values()]
    return {name for each in definitions for name in each.get("properties", {})}


@pytest.mark.parametrize("path", BODIES)
def test_few_errors_are_reported_for_any_body(path: str) -> None:
    field = BODIES[path]
    assert field is not None
    names = field_names(path)
    assert names
    for value, name in itertools.product(hostile_values(), names):
        entry = {"name": "x", "output": "", name: value}
        for body in ({"messages": [], "input": "", name: value}, [entry] * 64, value, [value] * 64):
            _, errors = field.validate(body)
            assert len(errors) <= 200, (name, str(value)[:40])


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("item", ["1", '""', "{}", '{"a":1}', "[]"])
def test_a_body_of_too_many_values_is_not_parsed(http: httpx.Client, path: str, item: str) -> None:
    content = f'{{"messages":[],"input":"","stop":[{",".join([item] * 100_000)}]}}'
    response = http.post(path, content=content, headers={"content-type": "application/json"})
    assert response.status_code == 413
    assert "more than 100000 JSON values" in response.text


def test_text_is_no_value(http: httpx.Client) -> None:
    text = '[{,:"}] \\ ' * 30_000
    body = {"messages": [*HELLO, {"role": "user", "content": text}], "max_tokens": 1}
    error = http.post("/v1/chat/completions", json=body).json()["error"]
    assert error["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "x" * 100_000, "messages": HELLO}),
        ("/v1/chat/completions", {"messages": HELLO, "tool_choice": "x" * 100_000}),
        ("/v1/chat/completions", {"messages": [{"role": "x" * 100_000, "content": "a"}]}),
        ("/v1/chat/completions", {"messages": HELLO, "logit_bias": {"x" * 100_000: 1}}),
        ("/v1/responses", {"input": [{"type": "x" * 100_000}]}),
        ("/v1/completions", {"prompt": ["x" * 100_000] * 17}),
        ("/detokenize", {"tokens": ["x" * 100_000]}),
        ("/v1/completions", {"prompt": [{"x" * 100_000: 1}]}),
        ("/v1/responses", {"input": "a", "previous_response_id": "x" * 100_000}),
        ("/v1/cache-tool-output/chatcmpl-0", [{"name": "a", "output": "", "x" * 100_000: 1}]),
    ],
)
def test_an_error_quotes_little_of_the_request(http: httpx.Client, path: str, body: Any) -> None:
    response = http.post(path, json=body)
    assert response.status_code in (400, 404)
    assert len(response.content) < 4000


CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
PARAMETERS = {"type": "object", "properties": {"x": {"type": "number"}}}
TOOL = {"name": "look", "description": "Look.", "parameters": PARAMETERS}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
NESTED: dict[str, dict[str, Any]] = {
    CHAT: {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hello!"}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x"}]},
            {"role": "user", "content": "Thanks", "name": "me"},
        ],
        "max_tokens": 2,
        "stop": ["###"],
        "stop_token_ids": [5],
        "logit_bias": {"5": 1},
        "tools": [{"type": "function", "function": TOOL}],
        "response_format": {"type": "text"},
        "prediction": {"type": "content", "content": [{"type": "text", "text": "Hello"}]},
        "stream_options": {"include_usage": True},
    },
    RESPONSES: {
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello!"}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_text", "text": "x"}],
            },
            {"role": "user", "content": "Thanks"},
        ],
        "max_output_tokens": 2,
        "store": False,
        "metadata": {"a": "b"},
        "include": ["message.output_text.logprobs"],
        "tools": [{"type": "function", **TOOL}],
        "text": {"format": {"type": "text"}},
    },
    "/v1/messages": {
        "model": "nano",
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello!"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x"}]},
                    {"type": "text", "text": "Thanks"},
                ],
            },
        ],
        "max_tokens": 2,
        "stop_sequences": ["###"],
        "tools": [{"name": "look", "description": "Look.", "input_schema": PARAMETERS}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "metadata": {"user_id": "a"},
    },
    "/v1/completions": {"prompt": ["Hello!", [5, 6]], "max_tokens": 2, "n": 2, "logit_bias": {"5": 1}},
}
"""Requests with something inside their fields."""
SHAPES: list[Any] = [
    None, "", "x", "\0", -1, 0, 2**63, 2**64, 1.5, -0.0, True, [], [None], [[]], ["x"], {}, {"a": None},
    {"type": None}, {"type": []}, {"type": {}}, [{"type": ["text"]}], [{"type": {"a": 1}, "text": "x"}],
    {"type": "json_schema", "json_schema": None}, {"type": "function", "function": {"name": []}},
]  # fmt: skip
NUMBERS = ["1e999", "-1e999", "1e308", "-1e308", "5e-324", "1e-307", "1" + "0" * 4200, "-1" + "0" * 4200]
NUMBER_FIELDS = [
    name for name, field in ChatRequest.model_fields.items() if {int, float} & set(get_args(field.annotation))
]


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The paths to everything inside ``value``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (key,)
        yield from ((key, *rest) for rest in places(item))


def replaced(body: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = inner = copy.deepcopy(body)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def check(http: httpx.Client, path: str, body: str) -> None:
    """Send ``body``; the answer must be no server error, and strict JSON."""
    response = http.post(path, content=body.encode(), headers={"content-type": "application/json"})
    assert response.status_code < 500, (body, response.text)
    texts = [response.text]
    if response.headers["content-type"].startswith("text/event-stream"):
        lines = response.text.splitlines()
        texts = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert not re.search("server_error|api_error", response.text), (body, response.text)
    for text in texts:
        if text != "[DONE]":
            json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:8])
def test_extreme_numbers_in_every_field_of_numbers(http: httpx.Client, number: str) -> None:
    body = {"model": "nano", "messages": HELLO, "max_tokens": 3, "min_p": 0.1, "logprobs": True}
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": "HERE"}}}
    multiples = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"multipleOf": "HERE"}}}
    nested = {"logit_bias": {"5": "HERE"}, "stop_token_ids": ["HERE"], "response_format": schema}
    for field, value in (dict.fromkeys(NUMBER_FIELDS, "HERE") | nested).items():
        check(http, CHAT, json.dumps(body | {field: value}).replace('"HERE"', number))
    check(http, CHAT, json.dumps(body | {"response_format": multiples}).replace('"HERE"', number))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("number", ["1e999", "-1E+400", "0.1e0400", "1e308"])
def test_numbers_that_a_response_repeats(http: httpx.Client, number: str, stream: bool) -> None:
    body = {"model": "nano", "input": "Hello!", "max_output_tokens": 3, "stream": stream}
    for field, value in {
        "text": {"format": {"type": "text", "other": "HERE"}},
        "tools": [{"type": "function", **TOOL, "other": ["HERE"]}],
        "tool_choice": {"type": "function", "name": "look", "other": "HERE"},
    }.items():
        more = {} if field == "text" else {"tools": [{"type": "function", **TOOL}]}
        check(http, RESPONSES, json.dumps(body | more | {field: value}).replace('"HERE"', number))


@pytest.mark.hypothesis
@pytest.mark.parametrize("path", NESTED)
def test_any_shape_anywhere_in_a_request(http: httpx.Client, path: str) -> None:
    body = NESTED[path]
    anywhere = [*places(body), *((name,) for name in sorted(field_names(path) - body.keys()))]

    @given(st.sampled_from(anywhere), st.sampled_from(SHAPES))
    @examples(150)
    def check_one(place: tuple[Any, ...], value: Any) -> None:
        check(http, path, json.dumps(replaced(body, place, value)))

    check_one()


@pytest.mark.parametrize("kind", [{"a": 1}, ["input_text"], None, 1.5])
def test_a_content_part_whose_type_is_no_text(http: httpx.Client, kind: Any) -> None:
    item = {"role": "user", "content": [{"type": kind, "text": "x"}]}
    for path, body in ((RESPONSES, {"input": [item]}), (CHAT, {"messages": [item]})):
        response = http.post(path, json={"model": "nano", **body})
        assert response.status_code == 400
        assert response.json()["error"]["param"].endswith("[0].content[0]")
