"""Hosts of a turn's tasks: the caller's event loop, or a worker loop for code without one."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import anyio

from ..errors import SpeculationError

T = TypeVar("T")
Main = Callable[[], Coroutine[Any, Any, None]]
_EXIT_SECONDS = 2.0


class Host(Protocol):
    """Starts the task tree of a turn in a copy of the caller's context, without waiting for it."""

    runs_coroutine_tools: bool
    """Whether the caller's own coroutines run on this loop."""

    def start(self, main: Main) -> None:
        """Start ``main`` soon."""


class RunningLoopHost:
    """Runs each turn as one task of the running asyncio loop.

    A turn's task ends with its last speculation, or with :meth:`aclose`; ``asyncio.run`` cancels the
    remaining tasks at its end.
    """

    runs_coroutine_tools = True

    def __init__(self) -> None:
        """Create a host for any number of loops."""
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps weak references only

    def start(self, main: Main) -> None:
        """Start ``main`` soon on the loop that runs in this thread."""
        task = asyncio.get_running_loop().create_task(main(), name="agentrt turn")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Cancel all turns and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            while self._tasks:
                await asyncio.wait(self._tasks)


class WorkerLoopHost:
    """Runs turns on one event loop in a daemon thread, which starts with the first turn.

    The loop ends with the process: its tasks are cancelled, and threads of hanging tools are abandoned.
    """

    runs_coroutine_tools = False  # a coroutine tool may hold connections of the caller's loop

    def __init__(self) -> None:
        """Create a host without a loop."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def start(self, main: Main) -> None:
        """Start ``main`` soon on the worker loop."""
        # Unlike a blocking portal this does not wait for the loop, which may be busy.
        self._running_loop().call_soon_threadsafe(running_loop.start, main)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``coroutine`` on the worker loop; cancelling the future cancels it.

        Its KeyboardInterrupt or SystemExit, which would end the loop, becomes a :class:`SpeculationError`.
        """
        return asyncio.run_coroutine_threadsafe(_not_ending_the_loop(coroutine), self._running_loop())

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():  # a forked child has no such thread
                ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
                thread = threading.Thread(target=_serve, args=(ready,), name="agentrt turns", daemon=True)
                thread.start()
                self._loop, stopped = ready.result()
                self._process = os.getpid()
                atexit.register(_stop, self._loop, stopped, thread)
            return self._loop


async def _not_ending_the_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        return await coroutine
    except (KeyboardInterrupt, SystemExit) as error:  # Ctrl-C comes to the main thread only
        raise SpeculationError(f"a predictor raised {type(error).__name__}. Mend its code.") from error


def _serve(ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    async def main() -> None:
        stopped = asyncio.Event()
        ready.set_result((asyncio.get_running_loop(), stopped))
        await stopped.wait()

    asyncio.run(main())


def _stop(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event, thread: threading.Thread) -> None:
    if thread.is_alive():  # false in a forked child
        loop.call_soon_threadsafe(stopped.set)
        thread.join(_EXIT_SECONDS)


running_loop = RunningLoopHost()
worker_loop = WorkerLoopHost()
