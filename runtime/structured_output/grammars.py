"""Grammars in llguidance's syntax: tool calls with the tools' schemas, and JSON of one schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentrt.calls import CallShape
from agentrt.calls.tool_definitions import arguments_schema

from .grammar_compiler import NamedSchema

# The one JSON style that models are trained to write calls in. Where a grammar allows any whitespace, small
# models go on writing spaces, and large ones spend tokens on indentation.
_JSON_STYLE: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# The model chooses the tokens of a fixed text itself: another tokenization would be unfamiliar to it.
_OPTIONS: Final = '%llguidance {"no_forcing": true}'

# Calls in any JSON style, as models write them that were not shown one: made to change its style within a
# call, a model writes other arguments. Whitespace is bounded: small models would go on writing it.
_W: Final = r"[ \t\r\n]{0,32}"
# In arguments one space, or one line break with indentation. A model whose next token is ruled out, such as a
# number where the schema has a string, would write more spaces, and after them something else.
_SPACE: Final = r"[ ]?|\r?\n[ \t]{0,32}"
_ANY_STYLE: Final = {"whitespace_pattern": _SPACE, "item_separator": ",", "key_separator": ":"}
_ANY_HEAD: Final = rf'/\{{{_W}"name"{_W}:{_W}/'
_ANY_BETWEEN: Final = rf'/{_W},{_W}"(arguments|parameters)"{_W}:{_W}/'
_ANY_TAIL: Final = rf"/{_W}\}}/"
# As the chat template of Qwen2.5-Coder shows a call.
_DOUBLED_HEAD: Final = rf'/\{{\{{{_W}"name"{_W}:{_W}/'
_DOUBLED_TAIL: Final = rf"/{_W}\}}\}}/"
_ANY_NEW_LINE: Final = rf"/[,;]?[ ]?\n{_W}/"
_ANY_OPENING: Final = rf"/\[{_W}/"
_ANY_COMMA: Final = rf"/{_W},{_W}/"
_ANY_CLOSING: Final = rf"/{_W}\]/"
_ANY_FENCE: Final = r"/```(json|tool_call|tool_calls)?\n/"
_ANY_FENCE_END: Final = rf"/{_W}\n[ \t]{{0,32}}```/"  # on a line of its own, where it is read as a fence
_ANY_END: Final = rf"/{_W}/"
# One literal for each piece of JSON: a longer one would hide the JSON of a schema that begins alike.
_EXACT_HEAD: Final = r'"{" "\"name\"" ": "'
_EXACT_BETWEEN: Final = r'", " "\"arguments\"" ": "'


def json_grammar(schema: Mapping[str, Any]) -> str:
    """One JSON text of ``schema``. A schema keyword that llguidance does not support is an error."""
    return f"{_OPTIONS}\nstart: %json {json.dumps({**schema, 'x-guidance': _JSON_STYLE})}"


def named_schemas(
    tools: Sequence[Mapping[str, Any]] = (), schema: Mapping[str, Any] | None = None
) -> list[NamedSchema]:
    """The schemas of ``tools`` and of a ``response_format``, with the options that they have in a grammar."""
    named = [
        NamedSchema(
            "tools", f"tool {tool['function']['name']!r}", _arguments_schema(tool["function"], _JSON_STYLE)
        )
        for tool in tools
    ]
    if schema is not None:
        named.append(NamedSchema("response_format", "its schema", {**schema, "x-guidance": _JSON_STYLE}))
    return named


def tool_call_grammar(tools: Sequence[Mapping[str, Any]], shape: CallShape) -> str:
    """One call, after its opening tag: the name of one of ``tools``, and arguments of its schema."""
    lines = [_OPTIONS, "start: " + " | ".join(f"call_{index}" for index in range(len(tools)))]
    for index, tool in enumerate(tools):
        function = tool["function"]
        head, tail = shape.head(function["name"]), shape.tail
        lines += [
            f"call_{index}: {_literal(head)} arguments_{index} {_literal(tail)}",
            f"arguments_{index}: %json {json.dumps(_arguments_schema(function, _JSON_STYLE))}",
        ]
    return "\n".join(lines)


def message_grammar(
    tools: Sequence[Mapping[str, Any]],
    *,
    parallel: bool,
    exact: bool,
    schema: Mapping[str, Any] | None = None,
) -> str:
    """A whole message that consists of calls of ``tools`` as JSON objects: one, or several if ``parallel``.

    ``exact`` allows one style only, an object per line. Otherwise the objects may also stand in an array or
    a code fence, with any whitespace or with doubled braces, as models write them that were not shown the
    style. ``schema`` allows a JSON text instead.
    """

    def calls_with(separator: str) -> str:
        return f"call ({separator} call)*" if parallel else "call"

    messages = ["lines"]
    style = _JSON_STYLE if exact else _ANY_STYLE
    lines = [_OPTIONS, "call: " + " | ".join(f"call_{index}" for index in range(len(tools)))]
    if exact:
        head, between, tail = _EXACT_HEAD, _EXACT_BETWEEN, _literal("}")
        lines.append(f"lines: {calls_with(_literal(chr(10)))}")
    else:
        head, between, tail = _ANY_HEAD, _ANY_BETWEEN, _ANY_TAIL
        messages += ["array", "fenced"]
        lines += [
            f"lines: {calls_with(_ANY_NEW_LINE)}",
            f"array: {_ANY_OPENING} {calls_with(_ANY_COMMA)} {_ANY_CLOSING}",
            f"fenced: {_ANY_FENCE} (lines | array) {_ANY_FENCE_END}",
        ]
    for index, tool in enumerate(tools):
        name = _literal(json.dumps(tool["function"]["name"], ensure_ascii=False))
        call = f"{name} {between} arguments_{index}"
        doubled = "" if exact else f" | {_DOUBLED_HEAD} {call} {_DOUBLED_TAIL}"
        lines += [
            f"call_{index}: {head} {call} {tail}{doubled}",
            f"arguments_{index}: %json {json.dumps(_arguments_schema(tool['function'], style))}",
        ]
    if schema is not None:
        lines.append(f"answer: %json {json.dumps({**schema, 'x-guidance': _JSON_STYLE})}")
        messages.append("answer")
    end = "" if exact else f" {_ANY_END}"
    return "\n".join([*lines, f"start: ({' | '.join(messages)}){end}"])


def _arguments_schema(function: Mapping[str, Any], style: Mapping[str, Any]) -> dict[str, Any]:
    return {**arguments_schema(function.get("parameters")), "x-guidance": {"lenient": True, **style}}


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
