"""What the middleware and the application have attached to a request."""

from __future__ import annotations

from typing import cast

from fastapi import Request

from .open_responses import OpenResponses


def open_responses_of(request: Request) -> OpenResponses:
    """The responses that are being written by the server, or gateway, that a request came to."""
    return cast(OpenResponses, request.app.state.open_responses)


def app_of(request: Request) -> str:
    """The app that asks, as the guard found out."""
    return cast(str, request.state.app)
