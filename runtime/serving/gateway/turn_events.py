"""The events of one turn of an engine, and where the turn ends: read, or relayed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

import httpx

from .sse import EventSplitter, LoopTurns, UnreadableEventError, event_data, parse_engine_json, split_events

_END_S: Final = 2.0
"""An engine that has finished its turn has this long for the usage and the end of the stream."""

_REST_S: Final = 0.01
"""How long the end of the body is waited for behind ``[DONE]``: only then can the connection be kept."""

_DONE: Final = b"[DONE]"
"""OpenAI's clients take data that begins so for the end of a stream."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """One event of an engine."""

    raw: bytes
    """The event as it came, with its final blank line."""
    body: dict[str, Any] | None
    """Its data, a chunk or an error; None for a comment and for data that does not begin an object."""


async def turn_events(response: httpx.Response) -> AsyncGenerator[TurnEvent, None]:
    """Yield the events of a turn up to ``[DONE]`` or the end of the body.

    A turn is complete once a chunk has a ``finish_reason``, or the engine has sent an error. Then it makes no
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
            while (event := await _next_event(events, _END_S if complete else None)) is not None:
                data = event_data(event)
                if data.lstrip().startswith(_DONE):
                    await _read_to_end(events)
                    break
                body = _json_object(data)
                complete = complete or _completes_turn(body)
                yield TurnEvent(event, body)
    except (httpx.HTTPError, TimeoutError) as error:
        if not complete:
            raise
        _log.info("the engine did not end a complete stream: %r", error)
    if not complete:
        raise _incomplete()


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
            if not complete:
                complete = _completes_relayed(event)
            yield event
            await turns.handled(len(event))
    rest = splitter.rest
    if not (complete or _completes_relayed(rest)):
        raise _incomplete()
    if rest:
        yield rest


def _completes_relayed(event: bytes) -> bool:
    """Whether an event completes a turn.

    Raises:
        httpx.RemoteProtocolError: it ends the stream.
    """
    try:
        data = event_data(event)
        if not data.lstrip().startswith(_DONE):
            return _completes_turn(_json_object(data))
    except UnreadableEventError:
        return False  # what it says is the client's to judge
    raise _incomplete()


def _incomplete() -> httpx.RemoteProtocolError:
    return httpx.RemoteProtocolError("its stream ended before the answer was complete")


async def _next_event(events: AsyncGenerator[bytes, None], timeout_s: float | None) -> bytes | None:
    """Return the next event; None at the end of the body."""
    async with asyncio.timeout(timeout_s):
        return await anext(events, None)


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
    if body is None:
        return False
    choices = body.get("choices")
    finished = isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") for choice in choices
    )
    return finished or bool(body.get("error"))
