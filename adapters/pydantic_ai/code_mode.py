"""Tools that code calls, as in `CodeMode` of pydantic-ai-harness: the model sees one tool that runs code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_ai.toolsets import ToolsetTool


def reachable_tools(
    shown: Mapping[str, ToolsetTool[Any]],
) -> Iterator[tuple[str, ToolsetTool[Any], ToolsetTool[Any] | None]]:
    """Yield each tool that an answer can lead to: its name, itself, and the tool whose code calls it, if any.

    ``shown`` are the tools that the model sees. The name of a tool that code calls is the one it has there.
    """
    yield from ((name, tool, None) for name, tool in shown.items())
    for runner in shown.values():
        for name, tool in _called_by(runner).items():
            if name not in shown:
                yield name, tool, runner


def _called_by(runner: ToolsetTool[Any]) -> dict[str, ToolsetTool[Any]]:
    """Return the tools that the code of a call can call, which `CodeMode` keeps on its tool."""
    if runner.tool_def.kind != "function":  # its own calls have to be approved
        return {}
    tools, names = getattr(runner, "wrapped_tools", None), getattr(runner, "callable_defs", None)
    if not isinstance(tools, Mapping) or not isinstance(names, Mapping):
        return {}
    renamed = getattr(runner, "sanitized_to_original", {})
    found = {name: tools.get(renamed.get(name, name)) for name in names}
    return {name: tool for name, tool in found.items() if tool is not None}
