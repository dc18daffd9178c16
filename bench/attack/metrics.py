"""What a server tells its owner, and waiting until it is idle again."""

from __future__ import annotations

import re
import time
from typing import Final

from .outcomes import Outcomes
from .server_process import Resources, ServerProcess
from .wire import Request, exchange

_BLOCKS: Final = "agentrt_kv_blocks"
_SETTLE_S: Final = 20.0


def metrics_of(server: ServerProcess) -> dict[str, float]:
    """Return the gauges and counters of a server by name, summed over their labels."""
    answer = exchange(server.port, Request("metrics", "GET", "/metrics"), server.tokens["owner"])
    found: dict[str, float] = {}
    for name, number in re.findall(r"^(\w+)(?:\{.*?\})? (\S+)$", answer.body.decode(), re.MULTILINE):
        found[name] = found.get(name, 0.0) + float(number)
    return found


def used_blocks(server: ServerProcess) -> int:
    """Return how many KV blocks are held; cached ones that may be taken are free."""
    found = metrics_of(server)
    return round(found[_BLOCKS] - found[f"{_BLOCKS}_free"])


def count_leaks(server: ServerProcess, before: Resources, outcomes: Outcomes, name: str) -> None:
    """Count the descriptors and blocks that an idle server still holds, after time to let go of them."""
    end = time.monotonic() + _SETTLE_S
    while True:
        descriptors = max(0, server.resources().descriptors - before.descriptors)
        blocks = used_blocks(server)
        if not (descriptors or blocks) or time.monotonic() > end:
            break
        time.sleep(0.1)
    outcomes.leaked["descriptors"] += descriptors
    outcomes.leaked["blocks"] += blocks
    if descriptors or blocks:
        outcomes.note(name, f"{descriptors} descriptors and {blocks} blocks are held still")
