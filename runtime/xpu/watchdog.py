"""Cancels inferences, on request or when they take too long, and abandons the thread of one that goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import openvino as ov

GRACE_S: Final = 0.5
"""How long a cancelled inference may take to stop until it is abandoned."""

_CHECK_EVERY_S: Final = 0.25


class LostThread(Exception):
    """This thread was abandoned while it ran an inference; another one has continued in its place."""


@dataclass(slots=True, eq=False)
class _Watched:
    request: ov.InferRequest
    deadline: float
    on_lost: Callable[[], None] | None
    cancelled: bool = False
    lost: bool = False


class Watchdog:
    """Runs inferences on the calling thread, and watches from another thread how long they take.

    Handing an inference to one of OpenVINO's threads and waiting for it there costs some 25 µs, which is
    little for most kernels and a fifteenth of a small model's decode step. An inference that is run here
    returns when OpenVINO heeds a cancellation, which it does between two operations. If one operation never
    ends, its thread is abandoned: it keeps all memory alive that the operation may still write to.
    """

    def __init__(self) -> None:
        """Create an idle watchdog; its thread starts with the first inference."""
        self._watched: _Watched | None = None
        self._lock = threading.Lock()
        """Held while the watched inference is marked as ended, cancelled or lost."""
        self._wake = threading.Event()
        """Set when there is something to watch again, or the watchdog is closed."""
        self._sleeps = False
        """Whether the thread waits for that, as nothing was to be watched when it looked last."""
        self._closed = False
        self._thread: threading.Thread | None = None

    def infer(
        self, request: ov.InferRequest, deadline: float, on_lost: Callable[[], None] | None = None
    ) -> bool:
        """Run ``request``; return False if it was cancelled after ``deadline``, a time of perf_counter.

        If it does not heed the cancellation, ``on_lost``, if given, is called on the watchdog thread.

        Raises:
            LostThread: the inference returned after ``on_lost`` was called.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="agentrt-watchdog", daemon=True)
            self._thread.start()
        watched = self._watched = _Watched(request, deadline, on_lost)
        if self._sleeps:
            self._wake.set()
        ended = True
        try:
            request.infer(share_inputs=True, share_outputs=True)
        except RuntimeError:
            if not watched.cancelled:
                raise
            ended = False
        finally:
            with self._lock:
                if not watched.lost:
                    self._watched = None
        if watched.lost:
            raise LostThread
        return ended

    def close(self) -> None:
        """End the watchdog thread and wait for it.

        The process would be aborted if the interpreter ended while a thread wakes up.
        """
        self._closed = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(GRACE_S)

    def _wait(self, *, idle: bool) -> None:
        """Wait until it is time to look again: ``idle`` for the next inference, else for a moment."""
        if not idle:
            self._wake.wait(_CHECK_EVERY_S)
        else:
            self._sleeps = True  # before it is looked whether one has begun, so that one that begins sees it
            if self._watched is None and not self._closed:
                self._wake.wait()
            self._sleeps = False
        self._wake.clear()

    def _watch(self) -> None:
        idle = False
        while not self._closed:
            self._wait(idle=idle)
            on_lost = None
            with self._lock:
                watched = self._watched
                idle = watched is None
                late_s = 0.0 if watched is None else time.perf_counter() - watched.deadline
                if watched is None or late_s <= 0:
                    continue
                if not watched.cancelled:
                    watched.cancelled = True
                    watched.request.cancel()
                elif late_s > GRACE_S and watched.on_lost is not None:
                    watched.lost = True
                    on_lost = watched.on_lost
                    self._watched = None
            if on_lost is not None:
                on_lost()


class Interrupted(Exception):
    """The inference ended before its last operation, or was not started. It can be run again."""

    def __init__(self, *, started: bool) -> None:
        """``started`` is whether any operation of it may have run."""
        super().__init__()
        self.started = started


class Interrupt:
    """Whether interruptible inferences are to end. Remembered until cleared, so that no request is missed.

    OpenVINO heeds a cancellation between two operations: within some milliseconds, where a kernel takes many
    times that.
    """

    def __init__(self) -> None:
        """Create one that was not requested."""
        self._lock = threading.Lock()
        """Held while an inference begins or ends, so that no other one is cancelled in its place."""
        self._requested = False
        self._running: ov.InferRequest | None = None

    def request(self) -> None:
        """End the running inference, and let none start. Thread-safe; does not block."""
        with self._lock:
            self._requested = True
            if self._running is not None:
                self._running.cancel()

    def clear(self) -> None:
        """Let inferences start again. Not while one runs."""
        self._requested = False

    def infer(self, request: ov.InferRequest, deadline: float) -> bool:
        """Run ``request``; return whether it has ended at ``deadline``, a time of perf_counter.

        Raises:
            Interrupted: see there.
        """
        with self._lock:
            if self._requested:
                raise Interrupted(started=False)
            request.start_async(share_inputs=True)
            self._running = request
        try:
            return wait_until(request, deadline)
        except RuntimeError:
            if self._requested:
                raise Interrupted(started=True) from None
            raise
        finally:
            with self._lock:
                self._running = None


def wait_until(request: ov.InferRequest, deadline: float) -> bool:
    """Wait for a started ``request``; return whether it has ended at ``deadline``, a time of perf_counter."""
    left_ms = max(0, int((deadline - time.perf_counter()) * 1e3)) + 1
    return bool(request.wait_for(left_ms))
