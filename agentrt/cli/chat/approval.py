"""Approval of calls that change the user's data."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage

from ...terminal_text import printable
from ...tools.speculable import speculable_tool

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

WhyNot: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Returns why a call, written as text, may not run; None if it may."""


class RefusedWrites:
    """Refuses calls where nobody can be asked, and remembers them."""

    def __init__(self) -> None:
        """No call has been refused."""
        self.calls: list[str] = []

    async def why_not(self, call: str) -> str:
        """Refuse ``call``."""
        self.calls.append(call)
        return "this call was not run, because the user could not be asked"


def ask_before_writes(why_not: WhyNot) -> AgentMiddleware[Any, Any]:
    """Return a middleware that runs tools that are not speculable only if ``why_not`` returns None.

    The model receives the reason as the error of a call that may not run.
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
        refusal = None if reads else await why_not(printable(f"{call['name']}({arguments})"))
        if refusal is None:
            return await run(request)
        return ToolMessage(
            json.dumps({"error": refusal}),
            name=call["name"],
            tool_call_id=call["id"],
            status="error",
        )

    return ask_first
