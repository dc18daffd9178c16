"""One run of an agent: its speculable tools, its turns, and the claims of its calls."""

from __future__ import annotations

import functools
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from agentrt import DraftRequest
from agentrt.adapting import Run, Turn, Turns, offered_tools, write_log

from .claiming_toolset import claiming_tool
from .guards import guards_of_run
from .messages import answered_ids, function_schemas, openai_messages
from .run_tool import RunTool
from .tool_choice import SpeculableTools, reachable_tools

_SEQUENTIAL = "the tool is sequential: it runs when no other does"


class AgentRun:
    """The speculation within one run of an agent."""

    def __init__(
        self,
        turns: Turns,
        speculable: SpeculableTools,
        slots: dict[str, threading.BoundedSemaphore],
    ) -> None:
        """``slots`` bound the speculative runs of each tool, over all runs of all agents."""
        self._turns = turns
        self._speculable = speculable
        self._slots = slots
        self._run = Run()
        self._known: dict[str, RunTool] = {}
        self._tools: dict[str, RunTool] = {}
        self._context: RunContext[Any] | None = None

    async def take_tools(self, context: RunContext[Any]) -> None:
        """Take the tools of the next model request from the context in which it is prepared.

        Raises:
            ConfigurationError: a tool was named that the agent does not have.
        """
        manager = context.tool_manager
        if manager is None or manager.tools is None:
            return
        self._context = context = manager.ctx or context
        reachable = list(reachable_tools(manager.tools))
        self._speculable.check_names([name for name, _, _ in reachable], manager.toolset)
        self._tools = {}
        for name, tool, runner in reachable:
            claiming = claiming_tool(tool)
            if claiming is None:
                continue
            claiming.role.answer = functools.partial(self._call, name)
            options = await self._speculable.options_of(claiming, tool.tool_def, context)
            if options is not None:
                known = self._known.get(name)
                if known is None:
                    known = self._known[name] = RunTool(name, options, self._slots)
                known.tool, known.claiming, known.context, known.runner = tool, claiming, context, runner
                self._tools[name] = known

    def start_turn(
        self,
        messages: Sequence[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> Turn | None:
        """Start speculating beside a model request; return None if it offers no speculable tool."""
        choice: Any = (settings or {}).get("tool_choice")
        offered = offered_tools(parameters.function_tools, getattr(choice, "function_tools", choice))
        if offered is not None:
            offered |= {
                name
                for name, tool in self._tools.items()
                if tool.runner and tool.runner.tool_def.name in offered
            }
        usable = self._tools if offered is None else offered.intersection(self._tools)
        if self._context is None or not usable:
            return None
        answered, rejected = answered_ids(messages)
        history, context, tools = list(messages), self._context, dict(self._tools)
        return self._turns.start(
            lambda: DraftRequest(openai_messages(history), function_schemas(parameters)),
            tools={name: tool.described for name, tool in tools.items()},
            offered=offered,
            refused={name: _SEQUENTIAL for name, tool in tools.items() if tool.tool.tool_def.sequential},
            guards=lambda: guards_of_run(context, tools),
            answered=answered,
            rejected=rejected,
            run=self._run,
        )

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: RunContext[Any],
        run: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Answer a real call from its speculation, or else by ``run()``; note it as a possible write."""
        tool = self._known.get(name)
        if tool is not None:
            return await tool.claim(arguments, context, run, self._run.scope)
        # What is read until now is outdated, and what is read meanwhile.
        write_log.note(self._run.scope, name)
        try:
            return await run()
        finally:
            write_log.note(self._run.scope, name)

    async def aclose(self) -> None:
        """End all speculations of the run; wait until their coroutines have ended. Threads go on."""
        await self._run.aclose()
