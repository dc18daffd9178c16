"""An inference that hangs."""

from __future__ import annotations

import threading
from typing import Any


class Hang:
    """An infer request that does not return until ``released`` is set, or it heeds a cancellation."""

    def __init__(self, request: Any, heeds_cancel: bool) -> None:
        self._request = request
        self._cancelled = threading.Event()
        self.waiting = threading.Event()
        self.released = threading.Event()
        self._heeds_cancel = heeds_cancel

    def start_async(self, share_inputs: bool) -> None:
        pass

    def infer(self, share_inputs: bool, share_outputs: bool) -> None:
        self.wait_for(int(1e9))

    def cancel(self) -> None:
        if self._heeds_cancel:
            self._cancelled.set()
            self.released.set()

    def wait_for(self, timeout_ms: int) -> bool:
        self.waiting.set()
        ended = self.released.wait(min(timeout_ms / 1e3, threading.TIMEOUT_MAX))
        if self._cancelled.is_set():
            raise RuntimeError("Infer Request was canceled")
        return ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)
