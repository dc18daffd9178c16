"""JSON of bodies: parsed strictly, written compactly, and a large one in parts beside the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.types import Scope

from agentrt.concurrency.fair_threads import give_way
from agentrt.finite import is_finite

from .errors import ApiError

MAX_VALUES: Final = 100_000
"""Values in a body, those in lists and objects included: parsing and checking them takes tens of
milliseconds, and no prompt that a model can take has as many."""
_SCANNED_AT_ONCE: Final = 1 << 16
_BYTES_OF_A_VALUE: Final = 16
"""Outside of strings. A longer number counts as several values: the longest take as long as hundreds."""
_AT_ONCE: Final = 16
"""Elements of a list that are encoded in one go: the encoder holds the GIL, and the event loop waits."""


class _StrictRequest(Request):
    async def json(self) -> Any:
        return parse_body(await self.body())


class StrictJsonRoute(APIRoute):
    """A route of strict JSON: UTF-8, finite numbers, no lone surrogates, limited nesting and size."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, which parses the body strictly."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            scope = request.scope if self.body_field is None else self.json_scope(request)
            return await handle(_StrictRequest(scope, request.receive))

        return handle_strictly

    def json_scope(self, request: Request) -> Scope:
        """Return the scope of a request whose body is said to be JSON: a web page can send others anywhere.

        Raises:
            ApiError: 415, it is said to be something else, or nothing is said.
        """
        headers = request.headers
        given = headers.get("content-type")
        kind = (given or "").partition(";")[0].strip().lower()
        is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
        is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        if not is_json and not is_empty:  # which another error says
            raise ApiError(
                415,
                f"the body {'has no content type' if given is None else f'is {given}'}. Send JSON with the "
                "header 'content-type: application/json'.",
                param="content-type",
                code="invalid_content_type",
            )
        return request.scope


def parse_body(body: bytes) -> Any:
    """Parse the body of a request as strict JSON.

    Raises:
        ApiError: 413, it has too many values; 400, it is not such JSON.
    """
    if has_more_values(body, MAX_VALUES):
        raise ApiError(
            413,
            f"the body has more than {MAX_VALUES} JSON values. Send fewer messages, tools or items.",
            code="request_too_large",
        )
    try:
        return parse_json(body)
    except ValueError as error:
        raise ApiError(
            400, f"the body is not JSON ({error}). Send one JSON value in UTF-8.", code="invalid_json"
        ) from None


def parse_json(data: bytes) -> Any:
    """Parse strict JSON in UTF-8.

    Raises:
        ValueError: it is not JSON, nested too deeply, or has a lone surrogate or a number that is not finite.
    """
    value = from_json(data, allow_inf_nan=False)
    if not _all_finite(value):  # the parser reads 1e999 as an infinity, and integers of any length
        raise ValueError("a number in it is beyond the range of 64-bit floats")
    return value


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether the JSON ``text`` has more than ``limit`` values, object keys included, without parsing it.

    Each value but the first follows a bracket, a brace, a comma or a colon outside strings. Where there are
    more than 16 bytes for each outside strings, as of numbers with many digits, every 16 count as one.
    """
    if len(text) < limit:
        return False
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    values, in_string = 1, 0
    for start in range(0, len(text), _SCANNED_AT_ONCE):
        pieces = text[start : start + _SCANNED_AT_ONCE].split(b'"')
        outside = b"".join(pieces[in_string::2])
        marks = sum(map(outside.count, (b"[", b"{", b",", b":")))
        values += max(marks, len(outside) // _BYTES_OF_A_VALUE)
        if values > limit:
            return True
        in_string ^= (len(pieces) - 1) & 1
    return False


def compact_json(value: Any) -> str:
    """Return ``value`` as JSON in one line, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _all_finite(value: Any) -> bool:
    """Whether every number in a parsed JSON value is finite."""
    pending = [value]
    while pending:
        value = pending.pop()
        if type(value) in (float, int):
            if not is_finite(value):
                return False
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return True


async def large_json_response(
    make_body: Callable[[], Any], headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response with the body that ``make_body`` returns. Both are made in a thread."""
    content = await asyncio.to_thread(lambda: "".join(give_way(json_pieces(make_body()))).encode())
    return Response(content, media_type="application/json", headers=headers)


def json_pieces(value: Any) -> Iterator[str]:
    """Yield ``value`` as :func:`compact_json` encodes it, in pieces."""
    if isinstance(value, Mapping):
        yield "{"
        for place, (key, inner) in enumerate(value.items()):
            yield f"{',' if place else ''}{compact_json(key)}:"
            yield from json_pieces(inner)
        yield "}"
    elif isinstance(value, list) and len(value) > _AT_ONCE:
        yield "["
        for begin in range(0, len(value), _AT_ONCE):
            yield f"{',' if begin else ''}{compact_json(value[begin : begin + _AT_ONCE])[1:-1]}"
        yield "]"
    elif isinstance(value, list):
        yield "["
        for place, inner in enumerate(value):
            if place:
                yield ","
            yield from json_pieces(inner)
        yield "]"
    else:
        yield compact_json(value)
