"""Approval of calls that change the user's data, and the clock that stands still meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage

from ...terminal_text import printable
from ...tools.speculable import speculable_tool

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import Output

DECLINED: Final = "the user has declined this call"
"""Why a call does not run that the user has not agreed to."""
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


class Confirmation:
    """Asks on the terminal, one question at a time. Anything but yes is no."""

    def __init__(self, output: Output | None = None) -> None:
        """Write the questions to ``output``, by default to standard output."""
        from prompt_toolkit import PromptSession

        self._session: PromptSession[str] = PromptSession(
            output=output, interrupt_exception=_InterruptedError
        )
        self._one_at_a_time = asyncio.Lock()

    async def why_not(self, call: str) -> str | None:
        """Return why ``call`` may not run, None if it may. Ctrl-C ends the answer in progress."""
        async with self._one_at_a_time:
            try:
                said = await self._session.prompt_async(f"  run {call}? [y/N] ", handle_sigint=False)
            except EOFError:
                said = ""
            except _InterruptedError:
                # The runner cancels the answer, as it does where no prompt is open.
                signal.raise_signal(signal.SIGINT)
                await asyncio.Event().wait()
        return None if said.strip().lower() in ("y", "yes") else DECLINED


class _InterruptedError(Exception):
    """Ctrl-C was pressed."""


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
