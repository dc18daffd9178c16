"""``X-AgentRT-Priority``: the priority of a request by a client that cannot add fields to its body."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request
from starlette.datastructures import Headers

from agentrt.priority import PRIORITY_HEADER, Priority

from .errors import ApiError

_NAMES = {priority.name.lower(): priority for priority in Priority}


def header_priority(request: Request) -> Priority | None:
    """Return the priority that the header names; None if there is no such header.

    Raises:
        ApiError: 400, the header is repeated or names no priority.
    """
    values: Sequence[str] = request.headers.getlist(PRIORITY_HEADER)
    if not values:
        return None
    named = _NAMES.get(values[0].lower()) if len(values) == 1 else None
    if named is None:
        raise ApiError(
            400,
            f"{PRIORITY_HEADER}: {', '.join(values)!r} is no priority. Use one of {', '.join(_NAMES)}.",
            param=PRIORITY_HEADER,
            code="invalid_value",
        )
    return named


def hinted_priority(headers: Headers) -> Priority:
    """Return the priority that the header names; reactive if it names none.

    It serves where the body, which may name one as well, is not read or is another engine's.
    """
    return _NAMES.get(headers.get(PRIORITY_HEADER, "").lower(), Priority.REACTIVE)


def priority_headers(priority: Priority) -> dict[str, str]:
    """Return the headers of a response to a request that was served with this priority."""
    return {PRIORITY_HEADER: priority.name.lower()}
