"""Bodies of server-sent events: split into events, parsed, or checked for an end within a line.

What an engine sends must not keep other requests waiting.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from typing import Any, Final

import httpx
from pydantic_core import from_json

from ..http.strict_json import MAX_VALUES, has_more_values

_MAX_EVENT_BYTES = 4 * 2**20
_MAX_LINES = 10_000
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LAST_LINE = b"data: [DONE]"
_TURN_BYTES: Final = 1 << 12
_ITEM_BYTES: Final = 1 << 8
"""What an event or a piece counts besides its bytes: most of its cost does not depend on them."""


class UnreadableEventError(httpx.RemoteProtocolError):
    """An event of an engine is too large, or is no JSON that the gateway can parse."""


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


class EventSplitter:
    r"""Splits a body that arrives in pieces into events.

    Bytes after the last blank line are not an event. Lines end in ``\n``, ``\r\n`` or ``\r`` only: JSON may
    hold other characters at which ``str.splitlines`` splits.
    """

    def __init__(self) -> None:
        """No piece has arrived."""
        self._buffer = bytearray()

    @property
    def rest(self) -> bytes:
        """The bytes after the last event."""
        return bytes(self._buffer)

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield each event that ends in ``piece``, with its final blank line.

        Raises:
            UnreadableEventError: an event has more than 4 MiB.
        """
        searched = max(0, len(self._buffer) - 3)  # an end may lie across two pieces
        self._buffer += piece
        while (end := _END.search(self._buffer, searched)) is not None:
            with memoryview(self._buffer) as view:
                event = bytes(view[: end.end()])
            yield event
            del self._buffer[: end.end()]
            searched = 0
        if len(self._buffer) > _MAX_EVENT_BYTES:
            raise UnreadableEventError(f"it has more than {_MAX_EVENT_BYTES} bytes")


async def split_events(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield each event of a body that arrives in pieces, see :class:`EventSplitter`.

    Raises:
        UnreadableEventError: an event has more than 4 MiB.
    """
    splitter, turns = EventSplitter(), LoopTurns()
    async for piece in pieces:
        for event in splitter.feed(piece):
            yield event
            await turns.handled(len(event))


def event_data(event: bytes) -> bytes:
    """Return the data of an event; empty for a comment.

    Raises:
        UnreadableEventError: it has more than 10,000 lines.
    """
    if max(event.count(b"\n"), event.count(b"\r")) > _MAX_LINES:
        raise UnreadableEventError(f"it has more than {_MAX_LINES} lines")
    lines = event.splitlines()
    return b"\n".join(line[6 if line[5:6] == b" " else 5 :] for line in lines if line.startswith(b"data:"))


def parse_engine_json(data: bytes) -> Any:
    """Return the JSON value that ``data`` is.

    Raises:
        ValueError: it is no JSON, is nested too deeply, or has too many values.
    """
    if has_more_values(data, MAX_VALUES):
        raise ValueError(f"it has more than {MAX_VALUES} JSON values")
    return from_json(data)


async def whole_lines(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a body unchanged.

    Raises:
        httpx.RemoteProtocolError: the body ended within a line, which HTTP does not notice where the end of
            the connection ends the body. A last line ``data: [DONE]`` may lack its end.
    """
    end = b""
    async for piece in pieces:
        end = (end + piece)[-len(_LAST_LINE) :]
        yield piece
    if end and not end.endswith((b"\n", b"\r", _LAST_LINE)):
        raise httpx.RemoteProtocolError("its stream ended within an event")
