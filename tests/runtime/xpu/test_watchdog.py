from __future__ import annotations

import threading
import time
from typing import Any

from agentrt.runtime.xpu.watchdog import Watchdog


class Request:
    """An inference that ends at once."""

    def infer(self, **_: Any) -> None:
        pass


def test_a_closed_watchdog_has_no_thread() -> None:
    """The interpreter aborts the process if it ends while a daemon thread wakes up."""
    before = set(threading.enumerate())
    watchdog = Watchdog()
    assert watchdog.infer(Request(), time.perf_counter() + 60)  # type: ignore[arg-type]
    assert set(threading.enumerate()) > before
    watchdog.close()
    assert set(threading.enumerate()) == before
    watchdog.close()
    Watchdog().close()
