from __future__ import annotations

import json
from typing import Any

import pytest

from agentrt.errors import InvalidRequestError
from agentrt.runtime import LocalRuntime

SCHEMA = "response_format.json_schema"
HELLO = [{"role": "user", "content": "Hello!"}]


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_an_answer_follows_its_schema(runtime: LocalRuntime, temperature: float) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}, "ok": {"type": "boolean"}},
        "required": ["n", "ok"],
        "additionalProperties": False,
    }
    response_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for seed in range(4):
        generation = runtime.generate(
            HELLO, response_format=response_format, max_tokens=64, temperature=temperature, seed=seed
        )
        answer = json.loads(generation.text)
        assert generation.finish_reason == "stop"
        assert isinstance(answer["ok"], bool)
        assert 1 <= answer["n"] <= 9


@pytest.mark.parametrize(
    ("response_format", "field"),
    [
        ("json", "response_format"),
        ({"type": "xml"}, "response_format"),
        ({"type": "json_schema"}, SCHEMA),
        *(
            ({"type": "json_schema", "json_schema": {"schema": {"const": value}}}, f"{SCHEMA}.schema")
            for value in (10**400, 10**5000, float("nan"), object(), "\ud800")
        ),
    ],
)
def test_invalid_formats_are_refused(runtime: LocalRuntime, response_format: Any, field: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        runtime.generate(HELLO, max_tokens=1, response_format=response_format)
    assert raised.value.field == field
