"""JSON bodies that may be large, encoded beside the event loop and a part at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from fastapi.responses import Response

from .strict_json import compact_json

T = TypeVar("T")

_AT_ONCE: Final = 16
"""Elements of a list that are encoded in one go: the encoder holds the GIL, and the event loop waits."""


async def large_json_response(
    make_body: Callable[[], Any], headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response with the body that ``make_body`` returns. Both are made in a thread."""
    content = await asyncio.to_thread(lambda: "".join(give_way(json_pieces(make_body()))).encode())
    return Response(content, media_type="application/json", headers=headers)


def give_way(items: Iterable[T]) -> Iterator[T]:
    """Yield ``items``, and let other threads run after every few of them.

    Python would let each of those wait for 5 ms instead, and a request passes through several.
    """
    for place, item in enumerate(items, 1):
        yield item
        if place % _AT_ONCE == 0:
            time.sleep(0)


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
