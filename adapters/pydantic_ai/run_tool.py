"""A tool of one agent run that may run speculatively."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Hashable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic_ai import Agent
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.usage import RunUsage

from agentrt.adapting import Invocation, SpeculableOptions, SpeculableTool, start_in_thread
from agentrt.errors import ConfigurationError

from .claiming_toolset import ClaimingTool
from .context import speculative_context


class _DaemonThreads(Executor):
    """Threads for sync tools: a cancelled speculation abandons its thread, which keeps no process alive."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return start_in_thread(functools.partial(fn, *args, **kwargs), name="agentrt speculation")


_threads = _DaemonThreads()


@dataclass(frozen=True, slots=True)
class _Result:
    """What a tool returned speculatively, and what it spent of its run's usage; None if nothing."""

    value: Any
    spent: RunUsage | None


class RunTool:
    """One tool of a run, with its speculations and pending claims."""

    def __init__(
        self, name: str, options: SpeculableOptions, slots: dict[str, threading.BoundedSemaphore]
    ) -> None:
        """``name`` is the tool's for the model; ``slots`` bound its speculative runs, over all agent runs."""
        self.described = SpeculableTool(
            name, bind=self._bind, call=None, acall=self._run_speculatively, options=options
        )
        self.described.slots = slots.setdefault(name, self.described.slots)
        # Those of the present step, which each step sets anew.
        self.tool: ToolsetTool[Any]
        """The tool as the agent calls it, with the definition that the model sees."""
        self.claiming: ClaimingTool[Any]
        """The tool within its own toolset."""
        self.context: RunContext[Any]
        self.runner: ToolsetTool[Any] | None = None
        """The tool whose code calls this one; None if the model calls it."""

    async def claim(
        self,
        arguments: Mapping[str, Any],
        context: RunContext[Any],
        run: Callable[[], Awaitable[Any]],
        scope: Hashable,
    ) -> Any:
        """Answer a real call from its speculation, or else by ``run()``."""
        key = functools.partial(self.described.key, Invocation(kwargs=dict(arguments)))
        call_id = None if self.runner else context.tool_call_id  # ids of calls in code are not the answer's
        result = await self.described.aclaim(call_id, key, run, scope)
        if not isinstance(result, _Result):
            return result
        if result.spent is not None:
            context.usage.incr(result.spent)
        return result.value

    def _bind(self, arguments: Mapping[str, Any]) -> Invocation:
        text = json.dumps(dict(arguments))  # as the model writes them: validation depends on it
        context = self.context.validation_context
        return Invocation(kwargs=dict(self.tool.args_validator.validate_json(text, context=context)))

    async def _run_speculatively(self, /, **arguments: Any) -> _Result:
        tool, claiming = self.tool, self.claiming
        context = speculative_context(
            self.context,
            name=claiming.leaf_name,
            tool=self.described.name,
            max_retries=tool.max_retries,
        )
        before = copy.deepcopy(context.usage)
        with Agent.using_thread_executor(_threads):
            if tool.args_validator_func is not None:  # which may say that a person has to approve the call
                checked = tool.args_validator_func(context, **arguments)
                if inspect.isawaitable(checked):
                    await checked
            value = await claiming.run(arguments, context, tool.tool_def)
        return _Result(value, None if context.usage == before else context.usage - before)


def declare_with_context(function: Callable[..., Any], options: SpeculableOptions) -> Callable[..., Any]:
    """Declare a function that takes a ``RunContext`` speculable; return it.

    Only :class:`SpeculateTools` can run it speculatively: the context is the agent run's.
    """

    def refuse(arguments: Mapping[str, Any]) -> NoReturn:
        raise ConfigurationError(
            f"{function.__name__} takes the context of a pydantic-ai run. Add "
            "agentrt.adapters.pydantic_ai.SpeculateTools(...) to the agent's capabilities."
        )

    described = SpeculableTool(function.__name__, bind=refuse, call=None, acall=None, options=options)
    function.__speculable__ = described  # type: ignore[attr-defined]
    return function
