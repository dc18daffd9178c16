"""What a client's ``post`` returns: streams, raw responses, and what was asked for ahead."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

Parser = Callable[[Any], Any]

_RAW_RESPONSE_HEADER: Final = "X-Stainless-Raw-Response"


def is_async(client: Any) -> bool:
    """Whether the client's requests are awaited."""
    return inspect.iscoroutinefunction(client.post)


def is_stream(result: Any) -> bool:
    """Whether it is a stream of events, which come from the generator ``_iterator``."""
    return isinstance(result, (Iterator, AsyncIterator)) and hasattr(result, "_iterator")


def raw_kind(options: Mapping[str, Any]) -> str | None:
    """Return how the HTTP response is handed to the user; None if it is not.

    ``"stream"``: the user reads it (``with_streaming_response``). Any other text: it was read
    (``with_raw_response``).
    """
    headers = (options.get("options") or {}).get("headers") or {}
    kind: str | None = headers.get(_RAW_RESPONSE_HEADER)
    return kind


def parsed(response: Any) -> Any:
    """Return what a raw response parses to, which it keeps for the user; None if it cannot be parsed."""
    with suppress(Exception):  # raised again when the user parses it
        return response.parse()


async def aparsed(response: Any) -> Any:
    """:func:`parsed` for a response of an async client, whose ``parse`` may be a coroutine function."""
    with suppress(Exception):
        result = response.parse()
        return await result if inspect.isawaitable(result) else result


class LookaheadResponse:
    """The answer to a request that was sent ahead, which a later request's ``post_parser`` parses."""

    def __init__(self, *, is_raw: bool) -> None:
        """Nothing was answered yet. ``is_raw``: it will be a raw response."""
        self.result: Any = None
        """What the client returned."""
        self.stream: Any = None
        """The stream of events that it is or, if it is raw, parses to; None for a whole answer."""
        self._is_raw = is_raw
        self._parser: Parser | None = None

    def parse(self, value: Any) -> Any:
        """Parse by the later request's parser; return ``value`` itself until that is known."""
        return value if self._parser is None else self._parser(value)

    def parsed_by(self, parser: Parser | None) -> Any:
        """Return what the client would have returned to a request with this parser."""
        self._parser = parser
        return self.result if self._is_raw else self.parse(self.result)
