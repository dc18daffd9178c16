"""Validation of OpenAI chat messages and tools, and their normal form for chat templates; of tokens, apps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentrt.calls import parse_arguments
from agentrt.errors import InvalidRequestError
from agentrt.finite import is_finite, parse_problem, shown

_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
MAX_MESSAGES: Final = 4096
"""A chat template takes 15 µs for each message, in which no other thread runs."""
MAX_TOLD_TOOLS: Final = 256
"""Tools whose durations one request tells."""
MAX_TOOL_SECONDS: Final = 86_400.0
"""A day: what is expected later is kept no differently."""


def check_messages(messages: object) -> list[dict[str, Any]]:
    """Return OpenAI chat messages in normal form: text parts joined, call arguments as objects.

    Raises:
        InvalidRequestError: a field is wrong; it is named as ``messages[i]…``.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise InvalidRequestError(
            "messages", "must be a list of {'role': …, 'content': …}. Give such a list."
        )
    if not messages:
        raise InvalidRequestError("messages", "is empty. Give at least one message, usually role 'user'.")
    if len(messages) > MAX_MESSAGES:
        raise InvalidRequestError(
            "messages", f"has {len(messages)} items, and at most {MAX_MESSAGES} are allowed. Drop old ones."
        )
    return [_check_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def plain_messages(messages: object) -> list[dict[str, Any]]:
    """Return OpenAI chat messages as :func:`check_messages` does, but with arguments as JSON texts again.

    They are what a conversation is stored as: JSON types only, in OpenAI's shape.

    Raises:
        InvalidRequestError: a field is wrong; it is named as ``messages[i]…``.
    """
    checked = check_messages(messages)
    for message in checked:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return checked


def unasked_output(earlier: Sequence[Any], added: Sequence[Any]) -> int | None:
    """Return which of ``added`` is the first tool output whose call no message before it makes; None if none.

    ``earlier`` are the messages before ``added``, from the first of the conversation on. What is wrong in
    messages that were not checked makes no calls.
    """
    calls: set[str | None] = set()
    for index, message in enumerate((*earlier, *added), -len(earlier)):
        if not isinstance(message, Mapping):
            continue
        id, made = message.get("tool_call_id"), message.get("tool_calls")
        if message.get("role") == "tool" and index >= 0 and isinstance(id, str | None) and id not in calls:
            return index
        of_message = (
            [call.get("id") for call in made if isinstance(call, Mapping)]
            if isinstance(made, Sequence)
            else ()
        )
        calls.update(each for each in of_message if isinstance(each, str | None))
    return None


def check_tools(tools: object) -> list[dict[str, Any]] | None:
    """Return a checked copy of OpenAI function definitions; None for an empty list.

    Raises:
        InvalidRequestError: a field is wrong; it is named as ``tools[i]…``.
    """
    if tools is None:
        return None
    if not isinstance(tools, Sequence) or isinstance(tools, (str, bytes)):
        raise InvalidRequestError("tools", "must be a list of function definitions. Give a list.")
    names: set[str] = set()
    checked: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        field = f"tools[{index}]"
        checked.append(_check_tool(tool, field))
        name = checked[-1]["function"]["name"]
        if name in names:
            raise InvalidRequestError(
                f"{field}.function.name", f"{shown(name)} occurs twice. Rename one tool."
            )
        names.add(name)
    return checked or None


def check_prediction(prediction: object) -> str:
    """Return the text of OpenAI's ``prediction``; empty for None.

    Raises:
        InvalidRequestError: it is not ``{"type": "content", "content": …}`` with a text or text parts.
    """
    if prediction is None:
        return ""
    if not isinstance(prediction, Mapping) or prediction.get("type") != "content":
        raise InvalidRequestError(
            "prediction", "must be {'type': 'content', 'content': …}. Give the text that you expect."
        )
    return _check_content(prediction.get("content"), "prediction.content")


def check_tool_seconds(tool_seconds: object) -> Mapping[str, float]:
    """Return how long tools are expected to take, by their names; empty for None.

    Raises:
        InvalidRequestError: it is no mapping of at most :data:`MAX_TOLD_TOOLS` names to seconds.
    """
    if tool_seconds is None:
        return {}
    if not isinstance(tool_seconds, Mapping) or len(tool_seconds) > MAX_TOLD_TOOLS:
        raise InvalidRequestError(
            "tool_seconds", f"must be a dict of at most {MAX_TOLD_TOOLS} names of tools. Give their seconds."
        )
    for name, seconds in tool_seconds.items():
        if not isinstance(name, str) or not is_finite(seconds) or not 0 <= seconds <= MAX_TOOL_SECONDS:
            raise InvalidRequestError(
                "tool_seconds",
                f"{shown(name)} has {shown(seconds)}. Give names of tools and numbers of seconds, each from "
                f"0 to {MAX_TOOL_SECONDS:g}.",
            )
    return dict(tool_seconds)


def check_response_format(response_format: object) -> Mapping[str, Any] | None:
    """Return the JSON schema that ``response_format`` requires of the answer's text; None for any text.

    Raises:
        InvalidRequestError: it is not one of OpenAI's formats, or has no schema.
    """
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        raise InvalidRequestError(
            "response_format", "its type must be 'text', 'json_object' or 'json_schema'. Use one of these."
        )
    assert isinstance(response_format, Mapping)
    described = response_format.get("json_schema")
    schema = described.get("schema") if isinstance(described, Mapping) else None
    if not isinstance(schema, Mapping):
        raise InvalidRequestError(
            "response_format.json_schema", "must be {'name': …, 'schema': {…}}. Give the schema."
        )
    plain: dict[str, Any] = plain_json(schema, "response_format.json_schema.schema")
    return plain


def _check_message(message: object, field: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise InvalidRequestError(field, "must be a dict with 'role' and 'content'. Give one.")
    role = message.get("role")
    if role not in _ROLES:
        raise InvalidRequestError(
            f"{field}.role", f"{shown(role)} is unknown. Use one of {', '.join(_ROLES)}."
        )
    calls = message.get("tool_calls")
    if calls is not None and role != "assistant":
        raise InvalidRequestError(f"{field}.tool_calls", "only an assistant message has calls. Remove them.")
    content = message.get("content")
    if content is None and calls:
        content = ""
    checked: dict[str, Any] = {
        # Chat templates do not know the newer name of the system role.
        "role": "system" if role == "developer" else role,
        "content": _check_content(content, f"{field}.content"),
    }
    if role == "user" and not checked["content"].strip():
        raise InvalidRequestError(f"{field}.content", "is empty. Say what the model should do.")
    if calls:
        checked["tool_calls"] = _check_calls(calls, f"{field}.tool_calls")
    for key in ("name", "tool_call_id"):
        if message.get(key) is not None:
            checked[key] = check_text(message[key], f"{field}.{key}")
    return checked


def _check_content(content: object, field: str) -> str:
    if isinstance(content, str):
        return check_text(content, field)
    if not isinstance(content, Sequence) or isinstance(content, (bytes, bytearray)):
        raise InvalidRequestError(field, f"must be text, not {type(content).__name__}. Give a string.")
    texts: list[str] = []
    for index, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") != "text":
            raise InvalidRequestError(
                f"{field}[{index}]", "only parts of type 'text' are supported. Remove images and sound."
            )
        texts.append(check_text(part.get("text"), f"{field}[{index}].text"))
    return "".join(texts)


def _check_calls(calls: object, field: str) -> list[dict[str, Any]]:
    if not isinstance(calls, Sequence) or isinstance(calls, (str, bytes)):
        raise InvalidRequestError(field, "must be a list of calls. Give a list.")
    return [_check_call(call, f"{field}[{index}]") for index, call in enumerate(calls)]


def _check_call(call: object, field: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise InvalidRequestError(
            field, "must be {'id', 'type', 'function': {'name', 'arguments'}}. Give that."
        )
    checked = {
        "type": "function",
        "function": {
            "name": _check_name(function.get("name"), f"{field}.function.name"),
            "arguments": _check_arguments(function.get("arguments"), f"{field}.function.arguments"),
        },
    }
    if call.get("id") is not None:
        checked["id"] = check_text(call["id"], f"{field}.id")
    return checked


def _check_arguments(arguments: object, field: str) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = parse_arguments(arguments)
        except ValueError as error:
            raise InvalidRequestError(
                field, f"is not the JSON text of an object ({error}). Give one."
            ) from None
    if not isinstance(arguments, Mapping):
        raise InvalidRequestError(field, "must be a JSON object. Give one, perhaps {}.")
    plain: dict[str, Any] = plain_json(arguments, field)
    return plain


def _check_tool(tool: object, field: str) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(tool, Mapping) or tool.get("type") != "function" or not isinstance(function, Mapping):
        raise InvalidRequestError(
            field,
            "must be {'type': 'function', 'function': {'name', 'description', 'parameters'}}. Give that.",
        )
    _check_name(function.get("name"), f"{field}.function.name")
    if function.get("description") is not None:
        check_text(function["description"], f"{field}.function.description")
    parameters = function.get("parameters")
    if parameters is not None and (
        not isinstance(parameters, Mapping)
        or parameters.get("type", "object") != "object"
        or not isinstance(parameters.get("properties", {}), Mapping)
    ):
        raise InvalidRequestError(
            f"{field}.function.parameters", "must be a JSON Schema of type 'object'. Give its 'properties'."
        )
    plain: dict[str, Any] = plain_json(tool, field)
    # Calls are held to their schemas anyway, and the word means nothing to the model.
    plain["function"].pop("strict", None)
    return plain


def _check_name(name: object, field: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidRequestError(field, f"{shown(name)} is not a name. Give the tool's name.")
    return check_text(name, field)


def check_text(text: object, field: str) -> str:
    """Return ``text``.

    Raises:
        InvalidRequestError: it is no text, or holds half of a character.
    """
    if not isinstance(text, str):
        raise InvalidRequestError(field, f"must be text, not {type(text).__name__}. Give a string.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequestError(
            field, "holds half of a character (a lone surrogate). Decode the text with errors='replace'."
        ) from None
    return text


def check_tokens(tokens: object, vocabulary_size: int, field: str) -> list[int]:
    """Return ``tokens`` as a list.

    Raises:
        InvalidRequestError: they are no list of integers, or one is outside the vocabulary.
    """
    if not isinstance(tokens, Sequence) or isinstance(tokens, (str, bytes, bytearray)):
        raise InvalidRequestError(field, f"{shown(tokens)} is no list of token ids. Give one, or a text.")
    for index, token in enumerate(tokens):
        if type(token) is not int or not 0 <= token < vocabulary_size:
            raise InvalidRequestError(
                f"{field}[{index}]",
                f"{shown(token)} is no token of this model. Use integers from 0 to {vocabulary_size - 1}.",
            )
    return list(tokens)


def plain_json(value: Mapping[str, Any], field: str) -> Any:
    """Return ``value`` as plain dicts, lists and scalars.

    Raises:
        InvalidRequestError: JSON cannot represent it, or an integer is beyond the range of 64-bit floats,
            which libraries read numbers of JSON as.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
        return json.loads(text, parse_int=_integer)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(
            field, f"cannot be written as JSON ({parse_problem(error)}). Use JSON types only."
        ) from None


def _integer(text: str) -> int:
    integer = int(text)
    if not is_finite(integer):
        raise ValueError("an integer beyond the range of 64-bit floats")
    return integer
