"""Tests that are coroutine functions."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from agentrt.testing import run_in_virtual_time

P = ParamSpec("P")
Test = Callable[P, Coroutine[Any, Any, None]]


def in_virtual_time(test: Test[P]) -> Callable[P, None]:
    """Run a test on a loop in virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_in_virtual_time(lambda: test(*args, **kwargs))

    return run


def on_a_loop(test: Test[P]) -> Callable[P, None]:
    """Run a test on an event loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
