"""The id of what an engine has stored, found in its answer while that is relayed."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from typing import Any, Final

from .sse import EventSplitter, LoopTurns, UnreadableEventError, event_data, parse_engine_json

_MAX_BYTES: Final = 8 * 2**20

_log: Final = logging.getLogger(__name__)

Note = Callable[[str], Awaitable[None]]


async def noting_id(pieces: AsyncIterable[bytes], note: Note) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a JSON object unchanged; await ``note`` of its ``id`` before the last one."""
    body, held = bytearray(), b""
    async for piece in pieces:
        if held:
            yield held
        held = piece
        if len(body) <= _MAX_BYTES:
            body += piece
    await _note(note, _parse(bytes(body)) if len(body) <= _MAX_BYTES else None)
    yield held


async def noting_event_id(pieces: AsyncIterable[bytes], note: Note) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a stream unchanged; await ``note`` before the end of the event with a response."""
    splitter, turns, looking = EventSplitter(), LoopTurns(), True
    async for piece in pieces:
        if looking and (response := await _first_response(splitter, turns, piece)) is not None:
            looking = False
            await _note(note, response)
        yield piece


async def _first_response(splitter: EventSplitter, turns: LoopTurns, piece: bytes) -> Any:
    """Return the response of an event that ends in ``piece``, an empty one if none can be read; else None."""
    try:
        for event in splitter.feed(piece):
            body = _parse(event_data(event))
            if isinstance(body, dict) and "response" in body:
                return body["response"] or {}
            await turns.handled(len(event))
    except UnreadableEventError:
        return {}
    return None


async def _note(note: Note, body: Any) -> None:
    if isinstance(body, dict) and isinstance(id := body.get("id"), str):
        await note(id)
    else:
        _log.warning("an engine's answer has no id that can be read: what it has stored reaches no app")


def _parse(data: bytes) -> Any:
    try:
        return parse_engine_json(data) if data else None
    except ValueError:
        return None
