"""A few threads for the blocking work of several apps, which take turns."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 16
"""Items between two moments in which other threads run."""


class Cancellation:
    """Whether the result of a function on a thread is still wanted. Thread-safe."""

    def __init__(self) -> None:
        """The result is wanted."""
        self._cancelled = False

    def cancel(self) -> None:
        """Let :meth:`check` raise from now on."""
        self._cancelled = True

    def check(self) -> None:
        """Return if the result is wanted. Call it between the steps of the function.

        Raises:
            concurrent.futures.CancelledError: it is not.
        """
        if self._cancelled:
            raise CancelledError


class FairThreads:
    """Runs blocking functions of several apps on a few threads. Thread-safe.

    Urgent functions come first. Among equally urgent ones apps take turns. An app has at most ``per_app`` of
    the threads at once: however much work it sends, other apps find a thread. Threads start when needed.
    """

    def __init__(self, name: str, *, threads: int = 4, per_app: int = 2) -> None:
        """``name`` is that of the threads."""
        self._executor = ThreadPoolExecutor(threads, name)
        self._per_app = per_app
        self._lock = threading.Lock()
        self._free = threads
        self._running: Counter[str] = Counter()
        self._urgent: OrderedDict[str, deque[_Work]] = OrderedDict()
        self._others: OrderedDict[str, deque[_Work]] = OrderedDict()

    async def run(self, app: str, function: Callable[[Cancellation], T], *, urgent: bool = True) -> T:
        """Run ``function`` on a thread, in a copy of this context, and return its result.

        Cancelling the task cancels the function: it does not start, or its :meth:`Cancellation.check` raises.
        """
        cancellation = Cancellation()
        started = functools.partial(contextvars.copy_context().run, function, cancellation)
        work = _Work(app, started, Future())
        with self._lock:
            queues = self._urgent if urgent else self._others
            queues.setdefault(app, deque()).append(work)
            self._start_waiting()
        try:
            return await asyncio.wrap_future(work.result)
        except asyncio.CancelledError:
            cancellation.cancel()
            raise

    def _start_waiting(self) -> None:
        """Give the free threads to functions that wait. The lock is held."""
        while self._free and (work := self._next()) is not None:
            self._free -= 1
            self._running[work.app] += 1
            self._executor.submit(self._run, work)

    def _next(self) -> _Work | None:
        """Take the next function that may start; None if there is none."""
        for queues in (self._urgent, self._others):
            for app, queue in queues.items():
                if self._running[app] < self._per_app:
                    work = queue.popleft()
                    queues.move_to_end(app)
                    if not queue:
                        del queues[app]
                    return work
        return None

    def _run(self, work: _Work) -> None:
        try:
            if work.result.set_running_or_notify_cancel():
                work.result.set_result(work.function())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting task
            work.result.set_exception(error)
        finally:
            with self._lock:
                self._free += 1
                self._running[work.app] -= 1
                if not self._running[work.app]:
                    del self._running[work.app]
                self._start_waiting()


class _Work(NamedTuple):
    """A function of an app, and where its result goes."""

    app: str
    function: Callable[[], Any]
    result: Future[Any]


def give_way(items: Iterable[T]) -> Iterator[T]:
    """Yield ``items``, and let other threads run after every few of them.

    Python would let each of those wait for 5 ms instead, and a request passes through several.
    """
    for place, item in enumerate(items, 1):
        yield item
        if place % _AT_ONCE == 0:
            time.sleep(0)
