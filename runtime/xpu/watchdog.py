"""Cancels inferences that do not come back to the thread that runs them."""

from __future__ import annotations

import threading
import time
from typing import Final

import openvino as ov

_LOOK_EVERY_S: Final = 0.25


class Watchdog:
    """Runs inferences on the calling thread, and looks from another one at how long they take.

    Handing an inference to one of OpenVINO's threads and waiting for it there costs some 25 µs, which is
    little for most kernels and a fifteenth of a small model's decode step. What is run here comes back when
    OpenVINO heeds a cancellation, which it does between two operations; one operation that never ends would
    need a thread to be given up.
    """

    def __init__(self) -> None:
        """Nothing runs; the looking thread starts with the first inference."""
        self._watched: tuple[ov.InferRequest, float] | None = None
        self._cancelled: ov.InferRequest | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def infer(self, request: ov.InferRequest, deadline: float) -> bool:
        """Run ``request``; False if it was cancelled after ``deadline``, a time of perf_counter."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="agentrt-watchdog", daemon=True)
            self._thread.start()
        self._watched = (request, deadline)
        try:
            request.infer(share_inputs=True, share_outputs=True)
        except RuntimeError:
            if self._cancelled is not request:
                raise
            self._cancelled = None
            return False
        finally:
            self._watched = None
        return True

    def close(self) -> None:
        """End the looking thread."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(_LOOK_EVERY_S):
            watched = self._watched
            if watched is not None and time.perf_counter() > watched[1]:
                self._cancelled = watched[0]
                watched[0].cancel()
