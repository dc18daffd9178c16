"""Approval of calls that change the user's data."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage

from ...tools.speculable import speculable_tool
from .terminal_text import printable

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

Approve: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks the user about a call, written as text; returns whether it may run."""


def ask_before_writes(approve: Approve) -> AgentMiddleware[Any, Any]:
    """Return a middleware that runs tools that are not speculable only if ``approve`` returns true.

    The model receives an error for a call that may not run.
    """
    from agentrt.adapters.langchain import allow_speculation

    @allow_speculation  # it holds back only tools that are never run speculatively
    @wrap_tool_call
    async def ask_first(
        request: ToolCallRequest, run: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        call = request.tool_call
        arguments = ", ".join(
            f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call["args"].items()
        )
        reads = request.tool is not None and speculable_tool(request.tool) is not None
        if reads or await approve(printable(f"{call['name']}({arguments})")):
            return await run(request)
        return ToolMessage(
            json.dumps({"error": "the user has declined this call"}),
            name=call["name"],
            tool_call_id=call["id"],
            status="error",
        )

    return ask_first
