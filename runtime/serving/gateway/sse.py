"""Bodies of server-sent events: split into events, parsed, and read or relayed up to the end of a turn.

What an engine sends must not keep other requests waiting.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from contextlib import aclosing, suppress
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
_END_S: Final = 2.0
"""An engine that has finished its turn has this long for the usage and the end of the stream."""
_REST_S: Final = 0.01
"""How long the end of the body is waited for behind ``[DONE]``: only then can the connection be kept."""
_DONE: Final = b"[DONE]"
"""OpenAI's clients take data that begins so for the end of a stream."""
_INCOMPLETE: Final = "its stream ended before the answer was complete"

_log: Final = logging.getLogger(__name__)


class UnreadableEventError(httpx.RemoteProtocolError):
    """An event of an engine is too large, or is no JSON that the gateway can parse."""


class LoopTurns:
    """Ends the turn of a task before it has handled too much.

    Where bytes are there already, reading and sending them waits for nothing: without this, one task would
    go on for as long as there are any. Another request takes some 20 turns, so each must be short.
    """

    def __init__(self) -> None:
        """Count from 0."""
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
    """Yield each event of a body that arrives in pieces; see :meth:`EventSplitter.feed`."""
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


async def turn_events(response: httpx.Response) -> AsyncGenerator[tuple[bytes, dict[str, Any] | None], None]:
    """Yield the events of a turn up to ``[DONE]`` or the end of the body: each as it came, and its data.

    The data is a chunk or an error; None for a comment and for data that does not begin an object. A turn is
    complete once a chunk has a ``finish_reason``, or the engine has sent an error. Then it makes no
    difference how the stream ends: if the engine breaks it off, or neither ends nor closes it for two
    seconds, the turn has ended, too.

    Raises:
        UnreadableEventError: an event has more than 4 MiB or 10,000 lines, or is an object that cannot be
            parsed.
        httpx.HTTPError: the engine broke off, or ended the stream before the turn was complete, with
            ``[DONE]`` or without.
    """
    complete = False
    try:
        async with aclosing(split_events(response.aiter_raw())) as events:
            while True:
                async with asyncio.timeout(_END_S if complete else None):
                    event = await anext(events, None)
                if event is None:
                    break
                data = event_data(event)
                if data.lstrip().startswith(_DONE):
                    await _read_to_end(events)
                    break
                body = _json_object(data)
                complete = complete or _completes_turn(body)
                yield event, body
    except (httpx.HTTPError, TimeoutError) as error:
        if not complete:
            raise
        _log.info("the engine did not end a complete stream: %r", error)
    if not complete:
        raise httpx.RemoteProtocolError(_INCOMPLETE)


async def whole_turn(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield a body of chunks unchanged, up to an end that comes before that of the answer.

    Raises:
        UnreadableEventError: an event has more than 4 MiB.
        httpx.HTTPError: the engine broke off, or ended the stream before any choice had a ``finish_reason``,
            with ``[DONE]`` or without.
    """
    splitter, turns, complete = EventSplitter(), LoopTurns(), False
    async for piece in pieces:
        for event in splitter.feed(piece):
            complete = complete or _completes_relayed(event)
            yield event
            await turns.handled(len(event))
    if not (complete or _completes_relayed(splitter.rest)):
        raise httpx.RemoteProtocolError(_INCOMPLETE)
    if splitter.rest:
        yield splitter.rest


def _completes_relayed(event: bytes) -> bool:
    """Whether an event completes a turn; raise :class:`httpx.RemoteProtocolError` if it ends the stream."""
    try:
        data = event_data(event)
        if not data.lstrip().startswith(_DONE):
            return _completes_turn(_json_object(data))
    except UnreadableEventError:
        return False  # what it says is the client's to judge
    raise httpx.RemoteProtocolError(_INCOMPLETE)


async def _read_to_end(events: AsyncGenerator[bytes, None]) -> None:
    """Read what follows the end of a stream, so that its connection can carry the next request."""
    with suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(_REST_S):
            while await anext(events, None) is not None:
                pass


def _json_object(data: bytes) -> dict[str, Any] | None:
    """Return the object that ``data`` is; None if it is something else.

    Raises:
        UnreadableEventError: it begins an object and cannot be parsed, or has too many values. Sent as it is,
            it could be a chunk with the engine's id and the number of another turn's call.
    """
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        body: dict[str, Any] = parse_engine_json(data)
    except ValueError as error:
        raise UnreadableEventError(str(error)) from error
    return body


def _completes_turn(body: dict[str, Any] | None) -> bool:
    choices = body.get("choices") if body else None
    finished = isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") for choice in choices
    )
    return finished or bool(body and body.get("error"))
