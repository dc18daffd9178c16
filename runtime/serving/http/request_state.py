"""Access to what the middleware and the application attach to a request."""

from __future__ import annotations

from typing import cast

from fastapi import Request

from agentrt.concurrency.fair_threads import FairThreads

from .held_bytes import HeldBytes
from .open_responses import OpenResponses


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


def held_bytes_of(request: Request) -> HeldBytes:
    """Return the bytes that are held for ``request``, as the guard counts them."""
    return cast(HeldBytes, request.state.held_bytes)
