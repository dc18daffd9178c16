"""What a request rules about its answer: which tools it may call, and the schema of its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.errors import InvalidRequestError

from .answer_grammar import CallRules


def call_rules(
    tools: Sequence[Mapping[str, Any]] | None, tool_choice: object, parallel_tool_calls: object
) -> CallRules | None:
    """What OpenAI's ``tool_choice`` and ``parallel_tool_calls`` say of checked ``tools``.

    Returns:
        None if no call may be made. One named tool is a call that must be made, of that tool, once.

    Raises:
        InvalidRequestError: the choice is none of OpenAI's, or names a tool that is not there.
    """
    if not isinstance(parallel_tool_calls, bool):
        raise InvalidRequestError(
            "parallel_tool_calls", f"{parallel_tool_calls!r} is not a bool. Use true or false."
        )
    if tool_choice == "none" or (tools is None and tool_choice in (None, "auto")):
        return None
    if tools is None:
        raise InvalidRequestError(
            "tool_choice", "there are no tools to choose from. Give tools, or leave it out."
        )
    if tool_choice in (None, "auto", "required"):
        return CallRules(tools, required=tool_choice == "required", parallel=parallel_tool_calls)
    name = _named(tool_choice)
    named = [tool for tool in tools if tool["function"]["name"] == name]
    if not named:
        raise InvalidRequestError(
            "tool_choice", f"no tool is called {name!r}. Name one of the tools of this request."
        )
    return CallRules(named, required=True, parallel=False)


def _named(tool_choice: object) -> str:
    if isinstance(tool_choice, Mapping) and tool_choice.get("type") == "function":
        function = tool_choice.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            return str(function["name"])
    raise InvalidRequestError(
        "tool_choice",
        "must be 'auto', 'none', 'required' or {'type': 'function', 'function': {'name': …}}. "
        "Use one of these.",
    )


def answer_schema(response_format: object) -> Mapping[str, Any] | None:
    """The JSON schema of the text that OpenAI's ``response_format`` asks for; None for any text.

    Raises:
        InvalidRequestError: it is none of OpenAI's formats, or has no schema.
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
    return schema
