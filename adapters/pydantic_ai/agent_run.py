"""One run of an agent: its speculable tools, its turns, and the claims of its calls."""

from __future__ import annotations

import functools
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from agentrt.concurrency.hosts import RunningLoopHost
from agentrt.drafts import DraftRequest, Speculator
from agentrt.tools.offered import offered_tools
from agentrt.tools.restrictions import Restrictions, not_offered
from agentrt.tools.writes import write_log
from agentrt.turns.shared import SharedState
from agentrt.turns.turn import Turn

from .claiming_toolset import claiming_tool
from .code_mode import reachable_tools
from .guards import restrictions_of_run
from .messages import answered_ids, function_schemas, openai_messages
from .run_tool import RunTool
from .tool_choice import SpeculableTools


class AgentRun:
    """The speculation within one run of an agent."""

    def __init__(
        self,
        shared: SharedState,
        predictors: Sequence[Speculator],
        speculable: SpeculableTools,
        slots: dict[str, threading.BoundedSemaphore],
    ) -> None:
        """``slots`` bound the speculative runs of each tool, over all runs of all agents."""
        self._shared = shared
        self._predictors = predictors
        self._speculable = speculable
        self._slots = slots
        self._scope = object()
        self._host = RunningLoopHost()
        self._known: dict[str, RunTool] = {}
        self._tools: dict[str, RunTool] = {}
        self._context: RunContext[Any] | None = None
        self._turns: WeakSet[Turn] = WeakSet()

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
            claiming.role.taker, claiming.role.name = self, name
            options = await self._speculable.options_of(claiming, tool.tool_def, context)
            if options is not None:
                known = self._known.get(name)
                if known is None:
                    known = self._known[name] = RunTool(name, options, self._slots)
                known.take_step(tool, claiming, context, runner)
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
        missing = not_offered(self._tools, offered)
        if self._context is None or len(missing) == len(self._tools):
            return None
        history = list(messages)
        turn = Turn(
            self._shared,
            tools={name: tool.described for name, tool in self._tools.items()},
            predictors=self._predictors,
            request=functools.partial(self._draft_request, history, parameters),
            scope=self._scope,
            restrictions=functools.partial(self._restrictions, self._context, dict(self._tools), missing),
        )
        self._turns.add(turn)
        turn.begin(*answered_ids(history))
        turn.start(self._host)
        return turn

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: RunContext[Any],
        run: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Answer a real call from its speculation, or else by ``run()``; note it as a possible write."""
        tool = self._known.get(name)
        if tool is not None:
            return await tool.claim(arguments, context, run, self._scope)
        write_log.note(self._scope, name)  # what is read until now is outdated, and what is read meanwhile
        try:
            return await run()
        finally:
            write_log.note(self._scope, name)

    async def aclose(self) -> None:
        """End all speculations of the run; wait until their coroutines have ended. Threads go on."""
        for turn in list(self._turns):
            turn.abandon()
        await self._host.aclose()

    def _draft_request(
        self, messages: Sequence[ModelMessage], parameters: ModelRequestParameters
    ) -> DraftRequest:
        return DraftRequest(openai_messages(messages), function_schemas(parameters), self._shared.samples)

    def _restrictions(
        self, context: RunContext[Any], tools: Mapping[str, RunTool], missing: Mapping[str, str]
    ) -> Restrictions:
        return restrictions_of_run(context, tools, missing)
