"""Runs the calls of a model, from their speculations where there are any."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

from pydantic import ValidationError

from ..argument_checks import check_call, check_collection
from ..calls import ToolCall
from ..concurrency.threads import run_in_thread
from ..errors import ConfigurationError, InvalidRequestError
from .speculable import speculable_tool
from .speculable_tool import Invocation, SpeculableTool


class Toolbox:
    """The speculable tools of a tool loop without a framework."""

    def __init__(self, tools: Sequence[object]) -> None:
        """Take tools declared ``@speculable``; raises :class:`ConfigurationError` on any other."""
        check_collection("tools", tools, "a list of tools declared @speculable")
        self.tools: dict[str, SpeculableTool] = {}
        for tool in tools:
            described = speculable_tool(tool)
            if described is None:
                raise ConfigurationError(f"{tool!r} is not speculable. Decorate it with @speculable.")
            self.tools[described.name] = described

    def call(self, call: ToolCall, scope: Hashable = None) -> Any:
        """Return the result of the call's speculation, or else run the tool.

        ``scope`` is that of the run; None is the one of this context, if any. Errors of the tool are raised
        as they are.

        Raises:
            InvalidRequestError: there is no such tool, it refuses the arguments, or it is a coroutine
                function (then use :meth:`acall`).
        """
        tool, invocation = self._bind(call)
        if tool.call is None:
            raise InvalidRequestError(
                "name", f"{tool.name} is a coroutine function. Call it from async code."
            )
        run = functools.partial(tool.call, *invocation.args, **invocation.kwargs)
        return tool.claim(call.id, functools.partial(tool.key, invocation), run, scope)

    async def acall(self, call: ToolCall, scope: Hashable = None) -> Any:
        """:meth:`call` for async code. A sync tool runs in a thread, so that it cannot block the loop."""
        tool, invocation = self._bind(call)
        run: Callable[[], Awaitable[Any]]
        if tool.acall is not None:
            run = functools.partial(tool.acall, *invocation.args, **invocation.kwargs)
        else:
            assert tool.call is not None
            function = functools.partial(tool.call, *invocation.args, **invocation.kwargs)
            run = functools.partial(run_in_thread, function, name=f"agentrt {tool.name}")
        return await tool.aclaim(call.id, functools.partial(tool.key, invocation), run, scope)

    def _bind(self, call: ToolCall) -> tuple[SpeculableTool, Invocation]:
        check_call("call", call)
        tool = self.tools.get(call.name)
        if tool is None:
            raise InvalidRequestError(
                "name", f"no speculable tool {call.name!r}, only {sorted(self.tools)}. Call it yourself."
            )
        try:
            return tool, tool.bind(call.arguments)
        except ValidationError as error:
            raise InvalidRequestError(
                "arguments", f"{tool.name} refuses them: {error}. Tell the model what to correct."
            ) from error
