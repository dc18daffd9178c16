"""Interrupts a running inference from another thread."""

from __future__ import annotations

import threading
import time

import openvino as ov


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
