"""Server-sent events out of a body that comes in pieces."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable

_MOST_BYTES = 8 * 2**20
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class EventTooLargeError(ValueError):
    """An event has more bytes than are kept for one."""


async def whole_events(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    r"""Each event with the blank line that ends it. What is left behind the last one is no event.

    Lines end in ``\n``, ``\r\n`` or ``\r``, and nowhere else: JSON may hold what ``str.splitlines`` also
    takes for an end.

    Raises:
        EventTooLargeError: an event has no end in sight.
    """
    waiting = bytearray()
    async for piece in pieces:
        searched = max(0, len(waiting) - 3)  # an end may lie across two pieces
        waiting += piece
        while (end := _END.search(waiting, searched)) is not None:
            yield bytes(waiting[: end.end()])
            del waiting[: end.end()]
            searched = 0
        if len(waiting) > _MOST_BYTES:
            raise EventTooLargeError(f"an event of more than {_MOST_BYTES} bytes")


def data_of(event: bytes) -> bytes:
    """What an event carries; empty for a comment."""
    lines = event.splitlines()
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
