"""agentrt's clock: the monotonic one, or a test's virtual one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_source: Callable[[], float] = time.monotonic


def monotonic() -> float:
    """Return the seconds since an arbitrary moment; they never decrease."""
    return _source()


@contextmanager
def measured_by(source: Callable[[], float]) -> Iterator[None]:
    """Replace the clock of the whole process by ``source`` inside the block."""
    global _source
    previous, _source = _source, source
    try:
        yield
    finally:
        _source = previous
