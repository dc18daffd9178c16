"""What the middleware and the application attach to a request, and the priority that its header names."""

from __future__ import annotations

from typing import cast

from fastapi import Request
from starlette.datastructures import Headers

from agentrt.concurrency.fair_threads import FairThreads
from agentrt.errors import InvalidRequestError
from agentrt.priority import PRIORITY_HEADER, Priority

from .open_responses import OpenResponses

_NAMES = {priority.name.lower(): priority for priority in Priority}


def open_responses_of(request: Request) -> OpenResponses:
    """Return the responses in progress at the server or gateway that received ``request``."""
    return cast(OpenResponses, request.app.state.open_responses)


def threads_of(request: Request) -> FairThreads:
    """Return the threads for blocking work of the server or gateway that received ``request``."""
    return cast(FairThreads, request.app.state.threads)


def app_of(request: Request) -> str:
    """Return the app that sent ``request``, as the guard identified it."""
    return cast(str, request.state.app)


def is_owner(request: Request) -> bool:
    """Whether the app that sent ``request`` is the owner's, which may see what all apps do."""
    return cast(bool, request.state.owner)


def header_priority(request: Request) -> Priority | None:
    """Return the priority that the header names; None if there is no such header.

    Raises:
        InvalidRequestError: the header is repeated or names no priority.
    """
    values = request.headers.getlist(PRIORITY_HEADER)
    named = ", ".join(values)
    if values and named.lower() not in _NAMES:
        raise InvalidRequestError(
            PRIORITY_HEADER, f"{named!r} is no priority. Use one of {', '.join(_NAMES)}."
        )
    return _NAMES[named.lower()] if values else None


def hinted_priority(headers: Headers) -> Priority:
    """Return the priority that the header names; reactive if it names none.

    It serves where the body, which may name one as well, is not read or is another engine's.
    """
    return _NAMES.get(headers.get(PRIORITY_HEADER, "").lower(), Priority.REACTIVE)


def priority_headers(priority: Priority) -> dict[str, str]:
    """Return the headers of a response to a request that was served with this priority."""
    return {PRIORITY_HEADER: priority.name.lower()}
