"""OpenAI's ``tool_choice`` and ``parallel_tool_calls`` of one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.errors import InvalidRequestError
from agentrt.finite import shown


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Which tool calls an answer may make."""

    tools: Sequence[Mapping[str, Any]]
    """The tools that may be called, as function definitions in OpenAI's shape."""
    required: bool = False
    """The answer must begin with a call."""
    parallel: bool = True
    """The answer may make more than one call."""


def parse_tool_choice(
    tools: Sequence[Mapping[str, Any]] | None, tool_choice: object, parallel_tool_calls: object
) -> ToolChoice | None:
    """Return what ``tool_choice`` and ``parallel_tool_calls`` say about validated ``tools``.

    Returns:
        None if the answer may not call a tool. A choice that names a tool requires one call of that tool.

    Raises:
        InvalidRequestError: the choice is not one of OpenAI's, or names a tool that is not in ``tools``.
    """
    if not isinstance(parallel_tool_calls, bool):
        raise InvalidRequestError(
            "parallel_tool_calls", f"{shown(parallel_tool_calls)} is not a bool. Use true or false."
        )
    if tool_choice == "none" or (tools is None and tool_choice in (None, "auto")):
        return None
    if tools is None:
        raise InvalidRequestError(
            "tool_choice", "there are no tools to choose from. Give tools, or leave it out."
        )
    if tool_choice in (None, "auto", "required"):
        return ToolChoice(tools, required=tool_choice == "required", parallel=parallel_tool_calls)
    name = _function_name(tool_choice)
    named = [tool for tool in tools if tool["function"]["name"] == name]
    if not named:
        raise InvalidRequestError(
            "tool_choice", f"no tool is called {shown(name)}. Name one of the tools of this request."
        )
    return ToolChoice(named, required=True, parallel=False)


def _function_name(tool_choice: object) -> str:
    if isinstance(tool_choice, Mapping) and tool_choice.get("type") == "function":
        function = tool_choice.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            return str(function["name"])
    raise InvalidRequestError(
        "tool_choice",
        "must be 'auto', 'none', 'required' or {'type': 'function', 'function': {'name': …}}. "
        "Use one of these.",
    )
