"""Cross-origin requests (CORS) of the web pages that a server allows."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from agentrt.priority import PRIORITY_HEADER

from .config import ListenConfig

_METHODS: Final = ("DELETE", "GET", "POST")
_READABLE_HEADERS: Final = (PRIORITY_HEADER, "retry-after", "x-should-retry")


def allow_origins(app: FastAPI, config: ListenConfig) -> None:
    """Let the web pages of ``config.cors_origins`` send requests to ``app`` and read the answers.

    Add it after the guard, so that pages can read its refusals, too. Browsers send no credentials of their
    own, such as cookies: pages send a token. Without origins nothing changes.
    """
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(config.cors_origins),
            allow_methods=_METHODS,
            allow_headers=("*",),  # clients send many of their own
            allow_credentials=False,
            allow_private_network=True,
            expose_headers=_READABLE_HEADERS,
        )
