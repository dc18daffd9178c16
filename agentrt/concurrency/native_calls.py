"""Calls into native libraries with threads, such as OpenVINO: at the end of a process, and in forks.

A thread that returns from such a call while the interpreter ends is unwound through frames of C++ or Rust,
which aborts the process. The interpreter waits for no daemon thread, so it must not end before the call.

A forked child has the library's memory but not its threads: a call there would wait for them for ever, and so
may the destructors of the library's objects.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading
import weakref
from typing import Final

from agentrt.errors import ForkedProcessError, RuntimeClosedError

_EXIT_S: Final = 20.0
"""The end of the process waits this long for calls in progress: loading a large model takes seconds."""
_FORK_EXIT_S: Final = 5
"""A forked child that ends has this long for what the libraries do then, which may wait for ever.

TBB does if the process was forked while a thread joined or left its work, some 3 % of forks right behind an
answer: ``exit`` destroys the main thread's objects first, before any handler that could be registered. The
child's status is that of the alarm then.
"""
_ENDS: Final = "the process ends, and begins no more work. Finish or close what runs before its end."


class NativeCalls:
    """The native calls of a process. A context manager around each of them. Thread-safe, and reentrant.

    Calls of threads that end before the interpreter does, such as the engine's, need not be noted here.
    """

    def __init__(self) -> None:
        """Without calls."""
        self._changed = threading.Condition()
        self._running = 0
        self._begun = False
        self._ending = False
        self.forked = False
        """Whether this process was forked from one that had begun native calls."""
        self._owners: weakref.WeakSet[object] = weakref.WeakSet()

    def keep_in_forks(self, owner: object) -> None:
        """Never destroy ``owner`` in a forked child: its native objects would wait for their threads."""
        self._owners.add(owner)

    def check(self) -> None:
        """Return if a call may begin. Call it between the steps of long work, too.

        Raises:
            ForkedProcessError: this process was forked from one that had begun native calls.
            RuntimeClosedError: the process ends.
        """
        if self.forked:
            raise ForkedProcessError
        if self._ending:
            raise RuntimeClosedError(_ENDS)

    def __enter__(self) -> None:
        """Begin a call; raises what :meth:`check` raises."""
        with self._changed:
            self.check()
            self._begun = True
            self._running += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: object
    ) -> None:
        """End a call.

        Raises:
            RuntimeClosedError: it started a thread, which Python refuses from the end of the main thread on,
                before it tells anybody else of the end.
        """
        with self._changed:
            self._running -= 1
            if self._ending:
                self._changed.notify_all()
        if isinstance(error, RuntimeError) and "interpreter shutdown" in str(error):
            raise RuntimeClosedError(_ENDS) from error

    def end(self) -> None:
        """Refuse further calls, and wait for those in progress, but not longer than 20 seconds."""
        with self._changed:
            self._ending = True
            self._changed.wait_for(lambda: not self._running, _EXIT_S)

    def note_fork(self) -> None:
        """Forget the calls of other threads, which a forked child does not have; refuse further ones."""
        self._changed = threading.Condition()  # another thread may have held the lock
        self._running = 0
        self.forked = self.forked or self._begun
        for owner in self._owners:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


native_calls: Final = NativeCalls()
"""Those of this process."""


def _end_process() -> None:
    """Let native calls end before the interpreter does; called when the process ends."""
    if native_calls.forked:
        # The library's code at the end of a process may wait for threads that are not there.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_FORK_EXIT_S)
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Another Ctrl-C ends the process at once. An exception would end the closing of what runs, and the
        # interpreter would end under it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    native_calls.end()


weakref.finalize(native_calls, bool)  # registers weakref's callback, which closes runtimes, before ours...
atexit.register(_end_process)  # ... so that ours runs first
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=native_calls.note_fork)
