"""``X-Session-ID``: the conversation that a request belongs to, in the header that other engines read."""

from __future__ import annotations

from fastapi import Request

from ...request.processor import MAX_SESSION_CHARACTERS
from ..http.errors import ApiError

SESSION_HEADER = "x-session-id"
"""The header by which vLLM's router keeps a session on one engine, and which agents send."""


def header_session(request: Request) -> str | None:
    """Return the session that the header names, in UTF-8; None if there is no such header.

    Raises:
        ApiError: 400, the header is repeated, empty, too long, not printable or not UTF-8.
    """
    # Not the decoded headers: those are read as Latin-1.
    values = [value for name, value in request.headers.raw if name == SESSION_HEADER.encode()]
    if not values:
        return None
    try:
        name = values[0].decode("utf-8")
    except UnicodeDecodeError:
        raise _refused("is not UTF-8. Encode the name of the session in UTF-8.") from None
    if len(values) > 1 or not name.isprintable() or not 0 < len(name) <= MAX_SESSION_CHARACTERS:
        raise _refused(f"send it once, with 1 to {MAX_SESSION_CHARACTERS} printable characters.")
    return name


def _refused(reason: str) -> ApiError:
    return ApiError(400, f"{SESSION_HEADER}: {reason}", param=SESSION_HEADER, code="invalid_value")
