"""Waiting for other threads and processes: a bound on hanging, which no verdict depends on."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

PATIENCE_S: Final = 120.0
"""Seconds after which what a test waits for does not come any more, on however busy a machine."""


def until(true: Callable[[], bool]) -> None:
    """Wait for what another thread or process does."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "what the test waits for has not come"
        time.sleep(0.001)


def in_event_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **fixtures), PATIENCE_S))

    return run
