"""An event loop whose clock jumps to the next timer: tests of timing are exact and take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..concurrency.clock import measured_by

T = TypeVar("T")


def run_in_virtual_time(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``main()`` on a loop of its own, like :func:`asyncio.run`, in virtual time.

    ``asyncio.sleep``, ``anyio.sleep`` and timeouts elapse at once, in order, and advance the loop's clock
    (``loop.time()``, ``anyio.current_time()``) by exactly their duration; agentrt's reports and time limits
    use that clock, too. Work in threads and on sockets takes no virtual time, and timers do not wait for it:
    keep such work out of tests of timing.
    """
    with asyncio.Runner(loop_factory=_VirtualTimeLoop) as runner, measured_by(runner.get_loop().time):
        return runner.run(main())


class _VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self._advance))

    def time(self) -> float:
        return self._now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        # Without the timeout, whose minutes would elapse at once here.
        await super().shutdown_default_executor()

    def _advance(self, seconds: float) -> None:
        self._now += seconds


class _JumpingSelector(selectors.DefaultSelector):
    """Advances the clock instead of waiting for a timer; waits only where no timer is set."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout:
            self._advance(timeout)
        return ready
