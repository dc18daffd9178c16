"""The tools bound to one copy of a speculating chat model."""

from __future__ import annotations

import copy
import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agentrt.adapting import SpeculableTool, offered_tools, speculable_tool
from agentrt.errors import NotSpeculableError


class BoundTools:
    """The tools bound to one copy of the model."""

    def __init__(self, tools: Sequence[Any], choice: Any = None) -> None:
        """Take the tools and the ``tool_choice`` given to ``bind_tools``.

        Raises:
            NotSpeculableError: a tool is not speculable but its function is.
        """
        self.given = list(tools)
        self._choice = choice
        self.speculable: dict[str, SpeculableTool] = {}
        for tool in tools:
            described = speculable_tool(tool)
            if isinstance(tool, BaseTool) and described is not None:
                self.speculable[described.name] = described
            elif any(map(speculable_tool, (tool, getattr(tool, "func", 0), getattr(tool, "coroutine", 0)))):
                raise NotSpeculableError(
                    f"{getattr(tool, 'name', tool)} has a speculable function but is not speculable itself: "
                    "only the tool receives the call's id. Put @speculable above @tool."
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> BoundTools:
        """Return copies of the tools, with their speculations."""
        return BoundTools(copy.deepcopy(self.given, memo), self._choice)

    def offered(self, options: Mapping[str, Any]) -> set[str] | None:
        """Return the tools that a request with these options offers; None if they cannot be read."""
        return offered_tools(options.get("tools", self.given), options.get("tool_choice", self._choice))

    @functools.cached_property
    def submittable(self) -> set[str]:
        """Names of the speculable tools whose whole result is text, so that an engine can answer the call."""
        return {
            tool.name
            for tool in self.given
            if isinstance(tool, BaseTool)
            and tool.name in self.speculable
            and tool.response_format == "content"
            and not tool.return_direct
        }

    @functools.cached_property
    def schemas(self) -> list[Mapping[str, Any]]:
        """The function tools in OpenAI's shape, without a provider's built-in tools."""
        schemas = [convert_to_openai_tool(tool) for tool in self.given]
        return [schema for schema in schemas if schema.get("type") == "function"]


class LastBoundTools:
    """The tools that were bound last: agents bind the same tools in every turn."""

    _last: tuple[Hashable | None, BoundTools] | None = None

    def bound(self, tools: Sequence[Any], choice: Any = None) -> BoundTools:
        """Return ``BoundTools(tools, choice)``, the last ones if they are of the same tools, unchanged.

        Raises:
            NotSpeculableError: a tool is not speculable but its function is.
        """
        key, last = _key(tools, choice), self._last
        if last is None or key is None or last[0] != key:
            self._last = last = key, BoundTools(tools, choice)
        return last[1]


def _key(tools: Sequence[Any], choice: Any) -> Hashable | None:
    """Return what the bound tools depend on, as long as the tools exist; None if it is not all known."""
    if not (choice is None or isinstance(choice, str)) or not all(
        isinstance(each, BaseTool) for each in tools
    ):
        return None
    return choice, tuple((id(each), each.name, each.description, id(each.args_schema)) for each in tools)
