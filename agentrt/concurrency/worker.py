"""A thread that runs one task after the other."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger(__name__)


class Worker:
    """A daemon thread with a queue of tasks; the first task starts it. Thread-safe."""

    def __init__(self, name: str) -> None:
        """``name`` is the thread's."""
        self._name = name
        self._changed = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._closing = False
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], None]) -> None:
        """Queue ``task``. What it raises is logged."""
        with self._changed:
            self._tasks.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Run what is queued and end the thread; return whether it has ended after ``timeout_s`` seconds.

        May be called again. Call :meth:`submit` no more.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
            thread = self._thread
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            try:
                task()
            except Exception:  # noqa: BLE001 - the next tasks go on
                _log.exception("A task of %s failed. Please report this.", self._name)

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._tasks:
                if self._closing:
                    return None
                self._changed.wait()
            return self._tasks.popleft()
