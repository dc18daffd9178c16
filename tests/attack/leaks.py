"""What a server holds when it is idle again."""

from __future__ import annotations

import time

from tests.attack.campaign import Campaign
from tests.attack.server_process import Resources, ServerProcess

_SETTLE_S = 20.0


def held_at_last(server: ServerProcess, before: Resources, within_s: float) -> int:
    """Return how many descriptors more than ``before`` are held, at the latest after ``within_s``."""
    end = time.monotonic() + within_s
    while (held := server.resources().descriptors - before.descriptors) > 0 and time.monotonic() < end:
        time.sleep(0.1)
    return max(0, held)


def count_leaks(server: ServerProcess, before: Resources, campaign: Campaign, name: str) -> None:
    """Count the descriptors and KV blocks that a server still holds, after time to let go of them."""
    if descriptors := held_at_last(server, before, _SETTLE_S):
        campaign.fail(name, f"{descriptors} descriptors are held still", "descriptors_leaked", descriptors)
    end = time.monotonic() + _SETTLE_S
    while (blocks := server.used_blocks()) and time.monotonic() < end:
        time.sleep(0.1)
    if blocks:
        campaign.fail(name, f"{blocks} KV blocks are held still", "blocks_leaked", blocks)
