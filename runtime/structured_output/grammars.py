"""Grammars in llguidance's syntax: tool calls with the tools' schemas, and JSON of one schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentrt.calls import CallShape

# The one JSON style that models are trained to write calls in. Where a grammar allows any whitespace, small
# models go on writing spaces, and large ones spend tokens on indentation.
_JSON_STYLE: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# The model chooses the tokens of a fixed text itself: another tokenization would be unfamiliar to it.
_OPTIONS: Final = '%llguidance {"no_forcing": true}'


def json_grammar(schema: Mapping[str, Any]) -> str:
    """One JSON text of ``schema``. A schema keyword that llguidance does not support is an error."""
    return f"{_OPTIONS}\nstart: %json {json.dumps({**schema, 'x-guidance': _JSON_STYLE})}"


def tool_call_grammar(tools: Sequence[Mapping[str, Any]], shape: CallShape) -> str:
    """One call, after its opening tag: the name of one of ``tools``, and arguments of its schema."""
    lines = [_OPTIONS, "start: " + " | ".join(f"call_{index}" for index in range(len(tools)))]
    for index, tool in enumerate(tools):
        function = tool["function"]
        head, tail = shape.head(function["name"]), shape.tail
        lines += [
            f"call_{index}: {_literal(head)} arguments_{index} {_literal(tail)}",
            f"arguments_{index}: %json {json.dumps(_arguments_schema(function))}",
        ]
    return "\n".join(lines)


def _arguments_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", **(function.get("parameters") or {})}
    if schema.get("properties"):
        # An undeclared parameter is a mistake even where the schema does not forbid it.
        schema.setdefault("additionalProperties", False)
    schema["x-guidance"] = {"lenient": True, **_JSON_STYLE}
    return schema


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
