"""From the engine thread to one asyncio task."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from ..toolcache.tool_turn import ToolTurn


class Mailbox:
    """Carries what is generated from the engine thread to one task; wakes its loop once, not once a token."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """``loop`` runs the one task that reads."""
        self._loop = loop
        self._pieces: deque[str | ToolTurn] = deque()
        self._arrived = asyncio.Event()
        self._closed = False
        self._wake_pending = False

    def put(self, piece: str | ToolTurn) -> None:
        """Called on the engine thread. Raises if the loop is closed, which ends the job: nobody reads."""
        self._pieces.append(piece)
        self._wake()

    def close(self) -> None:
        """Called on the engine thread when the job has ended."""
        self._closed = True
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now, and then nobody reads
            self._wake()

    async def get(self) -> str | ToolTurn | None:
        """All text that has come since the last call, or a turn of tools, or None at the end."""
        while not self._pieces:
            if self._closed:
                # The last piece was put before close, but perhaps after the look above.
                return self._take() or None
            await self._arrived.wait()
            self._arrived.clear()
        return self._take()

    def _take(self) -> str | ToolTurn:
        text = ""
        while self._pieces:
            piece = self._pieces[0]
            if not isinstance(piece, str):
                if text:
                    break
                self._pieces.popleft()
                return piece
            text += piece
            self._pieces.popleft()
        return text

    def _wake(self) -> None:
        if not self._wake_pending:
            self._wake_pending = True
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        # Cleared before the event is seen, so that what comes from now on wakes again.
        self._wake_pending = False
        self._arrived.set()
