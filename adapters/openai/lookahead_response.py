"""The client's return value for a request that was sent ahead, given to the equal request when it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from openai import AsyncStream, Stream
from openai._constants import RAW_RESPONSE_HEADER
from openai._legacy_response import LegacyAPIResponse

Parser = Callable[[Any], Any]


class LookaheadResponse:
    """A response whose ``post_parser`` is that of a later request.

    ``parse`` of chat completions has such a parser, and the request that was sent ahead cannot know it.
    """

    def __init__(self, *, streamed: bool) -> None:
        """``streamed`` says whether the request asks for a stream; :meth:`events` corrects it."""
        self.result: Any = None
        """What the client returned."""
        self.streamed = streamed
        self._parser: Parser | None = None

    def parse(self, value: Any) -> Any:
        """Parse by the later request's parser; return ``value`` itself until that is known."""
        return value if self._parser is None else self._parser(value)

    def events(self) -> Any:
        """Return the stream's generator of events, so that another can take its place; None if whole."""
        stream = parsed(self.result) if self.streamed else None
        self.streamed = isinstance(stream, (Stream, AsyncStream))
        return stream._iterator if isinstance(stream, (Stream, AsyncStream)) else None

    def parsed_by(self, parser: Parser | None) -> Any:
        """Return what the client would have returned to a request with this parser."""
        self._parser = parser
        return self.result if isinstance(self.result, LegacyAPIResponse) else self.parse(self.result)


def parsed(result: Any) -> Any:
    """Return what the client returned, parsed if it is a raw response that can be parsed.

    A raw response parses its body once and keeps the result, so the user gets the same object.
    """
    if isinstance(result, LegacyAPIResponse):
        with suppress(Exception):  # raised again when the user parses it
            return result.parse()
    return result


def is_unread_response(options: Mapping[str, Any]) -> bool:
    """Whether the client leaves the HTTP response to the user to read (``with_streaming_response``)."""
    headers = (options.get("options") or {}).get("headers") or {}
    return bool(headers.get(RAW_RESPONSE_HEADER) == "stream")
