"""Runs the tools of a turn speculatively: each in a task of its own on the turn's loop, or in a thread."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import anyio

from ..concurrency.contained import contained
from ..concurrency.tasks import TaskSet
from ..concurrency.threads import loop_caller, start_in_thread
from .real_call import speculative_run
from .speculable_tool import Invocation, SpeculableTool
from .speculation import Speculation

DiscardFailureListener = Callable[[SpeculableTool, BaseException], None]


class SpeculativeRuns:
    """The speculative runs of one turn, on the running event loop.

    A run is cancelled at its tool's timeout, unless its call has been made. The tool's slot is released when
    its function has ended.
    """

    def __init__(
        self, on_discard_failed: DiscardFailureListener, on_abandoned: Callable[[str], None]
    ) -> None:
        """``on_discard_failed`` is called with the error of discarding an unclaimed preparation.

        ``on_abandoned`` is called with the name of a tool whose cancelled run is not waited for any longer.
        """
        self._on_discard_failed = on_discard_failed
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._call_soon = loop_caller()
        self._open: set[Speculation] = set()
        self._tasks = TaskSet(on_abandoned)
        self._preparations: list[Speculation] = []
        self._all_over: asyncio.Future[None] | None = None

    def start(self, tool: SpeculableTool, invocation: Invocation, speculation: Speculation) -> None:
        """Start the tool, or its preparation."""
        self._open.add(speculation)
        timeout = tool.options.timeout
        limit = self._loop.call_later(
            timeout, speculation.cancel, f"the speculation took longer than {timeout} s"
        )
        speculation.when_expected(lambda: self._on_loop(limit.cancel))
        task: asyncio.Task[None] | None = None
        if speculation.needs_loop:
            task = self._tasks.start(self._run_coroutine(tool, invocation, speculation), tool.name)
            # A cancelled task that has not begun runs none of its own code.
            task.add_done_callback(lambda _: speculation.cancel("the speculation was cancelled"))
            speculation.when_over(tool.slots.release)
        else:
            self._start_function(tool, invocation, speculation)

        def over() -> None:
            limit.cancel()
            self._open.discard(speculation)
            if task is not None and speculation.cancelled:
                self._tasks.cancel(task)
            if not self._open and self._all_over is not None and not self._all_over.done():
                self._all_over.set_result(None)

        speculation.when_over(lambda: self._on_loop(over))
        if tool.two_phase:
            self._preparations.append(speculation)
            self._tasks.start(self._settle(tool, speculation), tool.name)

    async def over(self) -> None:
        """Wait until all runs are over, their tasks have ended, and preparations are claimed or discarded."""
        while self._open:
            self._all_over = self._loop.create_future()
            await self._all_over
        await self._tasks.over()

    async def stop(self) -> None:
        """Discard what is prepared, and wait until the tasks of cancelled runs have ended; threads go on."""
        for preparation in self._preparations:
            preparation.drop("its event loop ended")
        await self._tasks.stop()

    def _on_loop(self, callback: Callable[[], object]) -> None:
        if threading.get_ident() == self._thread:
            callback()
        else:
            self._call_soon(callback)

    async def _run_coroutine(
        self, tool: SpeculableTool, invocation: Invocation, speculation: Speculation
    ) -> None:
        assert tool.speculative_acall is not None
        with contained(speculation.fail), speculative_run(tool.name) as run:  # a failed one is a miss
            value = await tool.speculative_acall(*invocation.args, **invocation.kwargs)
            # One that finishes although it was cancelled is not kept, either.
            if (run.used or not speculation.finish(value)) and tool.two_phase:
                await self._discard(tool, value)

    def _start_function(self, tool: SpeculableTool, invocation: Invocation, speculation: Speculation) -> None:
        def work() -> None:
            assert tool.speculative_call is not None
            # Set in this thread, so that a thread that waits for the result depends on no event loop.
            with contained(speculation.fail), speculative_run(tool.name) as run:
                value = tool.speculative_call(*invocation.args, **invocation.kwargs)
                if (run.used or not speculation.finish(value)) and tool.options.discard is not None:
                    with contained(functools.partial(self._on_discard_failed, tool)):
                        tool.options.discard(value)
            tool.slots.release()

        try:
            start_in_thread(work, name=f"agentrt speculation {tool.name}")
        except RuntimeError as error:  # the system has no thread left
            speculation.fail(error)
            tool.slots.release()

    async def _settle(self, tool: SpeculableTool, speculation: Speculation) -> None:
        """Discard a preparation that is not claimed within the tool's ttl."""
        try:
            await speculation.over()
            with anyio.move_on_after(tool.options.ttl):
                await speculation.settled()
        finally:
            speculation.drop("the preparation was not used in time")
            with anyio.CancelScope(shield=True):
                left = await speculation.settled()
                if left.usable:
                    await self._discard(tool, left.value)

    async def _discard(self, tool: SpeculableTool, value: Any) -> None:
        with contained(functools.partial(self._on_discard_failed, tool)):  # it belongs to no call
            await tool.adiscard(value)
