"""The event stream of the live page: one task makes the frames, and each is encoded once for all pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Final, TypeAlias

from ..http.strict_json import compact_json
from .frames import Frames

INTERVAL_S: Final = 0.2
"""Seconds between two frames while there are few pages."""
SENDS_PER_S: Final = 200
"""Frames that all pages together get each second at most: many pages get theirs less often."""
HEARTBEAT_S: Final = 5.0
"""Seconds after which a frame is sent in which nothing has happened."""
MAX_BEHIND: Final = 4
"""Frames that wait for a page that reads slowly. It gets the newest ones, and sees by their numbers that
others are missing."""

_Page: TypeAlias = asyncio.Queue[bytes | None]
"""The frames that one page has yet to get."""

_log: Final = logging.getLogger(__name__)


class LiveFeed:
    """The frames of one server, for any number of pages. For one event loop.

    Nothing is recorded or computed while no page is open.
    """

    def __init__(self, new_frames: Callable[[], Frames]) -> None:
        """``new_frames`` is called when a page is opened and no other one is."""
        self._new_frames = new_frames
        self._pages: dict[_Page, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._newest: bytes | None = None
        self._ended = False

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return len(self._pages)

    @property
    def interval_s(self) -> float:
        """Seconds between two frames."""
        return max(INTERVAL_S, self.pages / SENDS_PER_S)

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events to one page, until it is closed, :meth:`end` is called or a fault."""
        if self._ended:
            return
        page = _Page(MAX_BEHIND)
        if self._newest is not None:
            _put(page, self._newest)
        self._pages[page] = None
        if self._task is None:
            self._task = asyncio.create_task(self._make_frames())
        try:
            while (frame := await page.get()) is not None:
                yield frame
        finally:
            self._pages.pop(page, None)
            if not self._pages and self._task is not None:
                self._task.cancel()
                self._task = self._newest = None

    def end(self) -> int:
        """End the streams of all pages, for good: the server stops. Return how many there are."""
        self._ended = True
        self._put_all(None)
        return len(self._pages)

    def _put_all(self, frame: bytes | None) -> None:
        """Put the next frame, or None at the end, in the place of the oldest one if too many wait."""
        for page in self._pages:
            _put(page, frame)

    async def _make_frames(self) -> None:
        frames, loop = self._new_frames(), asyncio.get_running_loop()
        number, sent, before = 0, 0.0, None
        try:
            while True:
                begun = loop.time()
                frame = await frames.next()
                state = {name: value for name, value in frame.items() if name != "t"}
                if state != before or begun - sent >= HEARTBEAT_S:
                    number, sent, before = number + 1, begun, state
                    text = compact_json({"n": number, **frame})
                    self._newest = f"data: {text}\n\n".encode("utf-8", "replace")
                    self._put_all(self._newest)
                await asyncio.sleep(max(0.0, begun + self.interval_s - loop.time()))
        except Exception:  # noqa: BLE001 - logged, and the pages are told
            _log.exception("The live page's events have ended. Pages connect again.")
            self._task = self._newest = None
            self._put_all(None)
        finally:
            frames.stop()


def _put(page: _Page, frame: bytes | None) -> None:
    if page.full():
        page.get_nowait()
    page.put_nowait(frame)
