"""Turns of the event loop: what an engine sends must not keep other requests waiting."""

from __future__ import annotations

import asyncio
from typing import Final

_TURN_BYTES: Final = 1 << 12
_ITEM_BYTES: Final = 1 << 8
"""What an event or a piece counts besides its bytes: most of its cost does not depend on them."""


class LoopTurns:
    """Ends the turn of a task before it has handled too much.

    Where bytes are there already, reading and sending them waits for nothing: without this, one task would
    go on for as long as there are any. Another request takes some 20 turns, so each must be short.
    """

    def __init__(self) -> None:
        """Nothing was handled."""
        self._handled = 0

    async def handled(self, size: int) -> None:
        """Count an event or a piece of ``size`` bytes; let every other task run once for each 4 KiB."""
        self._handled += _ITEM_BYTES + size
        while self._handled >= _TURN_BYTES:
            self._handled -= _TURN_BYTES
            await asyncio.sleep(0)
