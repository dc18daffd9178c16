"""Cancels inferences that do not come back to the thread that runs them, and then gives up that thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import openvino as ov

GRACE_S: Final = 0.5
"""How long an inference that was told to stop may take until it is given up."""

_LOOK_EVERY_S: Final = 0.25


class LostThread(Exception):
    """This thread was given up while it ran an inference; another one has gone on since."""


@dataclass(slots=True, eq=False)
class _Watched:
    request: ov.InferRequest
    deadline: float
    on_lost: Callable[[], None] | None
    cancelled: bool = False
    lost: bool = False


class Watchdog:
    """Runs inferences on the calling thread, and looks from another one at how long they take.

    Handing an inference to one of OpenVINO's threads and waiting for it there costs some 25 µs, which is
    little for most kernels and a fifteenth of a small model's decode step. What is run here comes back when
    OpenVINO heeds a cancellation, which it does between two operations. Of one operation that never ends the
    thread is given up: it keeps alive all that the operation may still write to, and ends with it.
    """

    def __init__(self) -> None:
        """Nothing runs; the looking thread starts with the first inference."""
        self._watched: _Watched | None = None
        self._lock = threading.Lock()
        """Held while it is decided whether what is watched has ended, was cancelled or is lost."""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def infer(
        self, request: ov.InferRequest, deadline: float, on_lost: Callable[[], None] | None = None
    ) -> bool:
        """Run ``request``; False if it was cancelled after ``deadline``, a time of perf_counter.

        If it does not heed that, ``on_lost`` is called on the looking thread, where there is one.

        Raises:
            LostThread: after that, when it has come back at last.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="agentrt-watchdog", daemon=True)
            self._thread.start()
        watched = self._watched = _Watched(request, deadline, on_lost)
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
        """End the looking thread."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(_LOOK_EVERY_S):
            on_lost = None
            with self._lock:
                watched = self._watched
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
