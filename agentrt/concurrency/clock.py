"""The clock by which agentrt measures: the monotonic one, unless a test lets time pass by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_source: Callable[[], float] = time.monotonic


def monotonic() -> float:
    """Seconds since an arbitrary moment; never goes back."""
    return _source()


@contextmanager
def measured_by(source: Callable[[], float]) -> Iterator[None]:
    """Let the whole process measure by ``source``."""
    global _source
    previous, _source = _source, source
    try:
        yield
    finally:
        _source = previous
