"""Grammars in llguidance's syntax: tool calls with the tools' schemas, and JSON of one schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

# The one JSON style that models are trained to write calls in. Where a grammar allows any whitespace, small
# models go on writing spaces, and large ones spend tokens on indentation.
_JSON_STYLE: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# The model chooses the tokens of a fixed text itself: another tokenization would be unfamiliar to it.
_OPTIONS: Final = '%llguidance {"no_forcing": true}'


def json_grammar(schema: Mapping[str, Any]) -> str:
    """One JSON text of ``schema``. A schema keyword that llguidance does not support is an error."""
    return f"{_OPTIONS}\nstart: %json {json.dumps({**schema, 'x-guidance': _JSON_STYLE})}"


def tool_call_grammar(tools: Sequence[Mapping[str, Any]]) -> str:
    """One call, behind its opening tag: the name of one of ``tools``, and arguments of its schema."""
    calls = " | ".join(f"call_{index}" for index in range(len(tools)))
    lines = [
        _OPTIONS,
        # The call is on lines of its own, as every chat template of this format writes it: the model's next
        # prompt then repeats exactly the tokens that it wrote.
        f"start: {_literal(chr(10))} ({calls}) {_literal(chr(10) + '</tool_call>')}",
    ]
    for index, tool in enumerate(tools):
        function = tool["function"]
        name = json.dumps(function["name"], ensure_ascii=False)
        head = _literal(f'{{"name": {name}, "arguments": ')
        lines += [
            f'call_{index}: {head} arguments_{index} "}}"',
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
