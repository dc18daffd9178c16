"""Signals during what they would break: Ctrl-C while native modules are imported."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_deferred(number: int = signal.SIGINT) -> Iterator[None]:
    """Handle a signal that comes during the block at its end, in the main thread; elsewhere, none comes.

    OpenVINO's initialization turns Ctrl-C into an ImportError, and cannot be begun again.
    """
    handler = signal.getsignal(number)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(number, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(number, handler)
        if came:
            handler(*came[0])
