"""Tasks with code of the user, which may not end when they are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import anyio

CLEAN_UP_SECONDS: Final = 10.0
"""A cancelled task is waited for this long, while it gives a connection back, say."""
_abandoned: set[asyncio.Task[None]] = set()  # the loop itself keeps weak references only


class TaskSet:
    """Tasks of the running event loop, by the name of the tool or predictor whose code they run.

    Each is cancelled once: asyncio code expects one cancellation, and may await while it cleans up. A task
    that has not ended ``CLEAN_UP_SECONDS`` later is abandoned: it is not waited for any longer.
    """

    def __init__(self, on_abandoned: Callable[[str], None]) -> None:
        """``on_abandoned`` is called with the name of a task that is abandoned."""
        self._on_abandoned = on_abandoned
        self._loop = asyncio.get_running_loop()
        self._names: dict[asyncio.Task[None], str] = {}
        self._limits: dict[asyncio.Task[None], asyncio.TimerHandle] = {}
        self._ended: asyncio.Future[None] | None = None

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task; ``name`` is that of the tool or predictor."""
        task = self._loop.create_task(work, name=f"agentrt {name}")
        self._names[task] = name
        task.add_done_callback(self._forget)
        return task

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task, and limit the time that it has to end; without effect if that was done before."""
        if task in self._names and not task.cancelling():
            task.cancel()
            self._limit(task)

    def cancel_all(self) -> None:
        """Cancel every task."""
        for task in list(self._names):
            self.cancel(task)

    async def over(self) -> None:
        """Wait until all tasks have ended or are abandoned."""
        while self._names:
            self._ended = self._loop.create_future()
            await self._ended

    async def stop(self) -> None:
        """:meth:`over`, also if this task is cancelled; tasks that are not cancelled have as long to end."""
        for task in self._names:
            self._limit(task)
        with anyio.CancelScope(shield=True):
            await self.over()

    def _limit(self, task: asyncio.Task[None]) -> None:
        if task not in self._limits:
            self._limits[task] = self._loop.call_later(CLEAN_UP_SECONDS, self._abandon, task)

    def _abandon(self, task: asyncio.Task[None]) -> None:
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)
        self._on_abandoned(self._names[task])
        self._forget(task)

    def _forget(self, task: asyncio.Task[None]) -> None:
        error = task.exception() if task.done() and not task.cancelled() else None
        # The loop has raised Ctrl-C to its caller: it is not reported a second time.
        if error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
            context = {"message": f"{task.get_name()} failed", "exception": error, "task": task}
            self._loop.call_exception_handler(context)
        self._names.pop(task, None)
        limit = self._limits.pop(task, None)
        if limit is not None:
            limit.cancel()
        if not self._names and self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
