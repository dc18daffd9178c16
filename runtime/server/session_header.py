"""``X-Session-ID``: the conversation that a request belongs to, in the header that other engines read."""

from __future__ import annotations

from fastapi import Request

from ..http.errors import ApiError
from ..request.processor import MAX_SESSION_CHARACTERS

SESSION_HEADER = "x-session-id"
"""The header by which vLLM's router keeps a session on one engine, and which agents send."""


def header_session(request: Request) -> str | None:
    """Return the session that the header names; None if there is no such header.

    Raises:
        ApiError: 400, the header is repeated, empty, too long or not printable.
    """
    values = request.headers.getlist(SESSION_HEADER)
    if not values:
        return None
    name = values[0]
    if len(values) > 1 or not name.isprintable() or not 0 < len(name) <= MAX_SESSION_CHARACTERS:
        raise ApiError(
            400,
            f"{SESSION_HEADER}: send it once, with 1 to {MAX_SESSION_CHARACTERS} printable characters.",
            param=SESSION_HEADER,
            code="invalid_value",
        )
    return name
