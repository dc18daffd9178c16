"""No body costs the server much: its values are counted, and few of its errors are reported."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from agentrt.runtime.serving import tool_cache_route
from agentrt.runtime.serving.server import chat, completions, contexts, embeddings, ollama, responses, tokens
from tests.runtime.serving.server.conftest import HELLO

ROUTERS = (
    *(chat.router, completions.router, contexts.router, embeddings.router, responses.router),
    *(tokens.router, tool_cache_route.router, ollama.router),
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
    assert field is not None
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
