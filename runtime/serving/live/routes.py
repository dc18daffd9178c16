"""``/``, the files of the live page, and ``/live/events``; the page by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from ..http.application import application
from ..http.config import ListenConfig
from ..http.streaming import ClosingStreamingResponse
from .feed import LiveFeed

EVENTS: Final = "/live/events"
_INDEX: Final = "index.html"
_PAGE: Final = Path(__file__).parent / "page"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The folder is laid out as the paths are, so that the page also opens from its file.
_FILES: Final = {
    path.relative_to(_PAGE).as_posix(): path.read_bytes()
    for path in sorted(_PAGE.rglob("*"))
    if path.suffix in _TYPES
}
_PATHS: Final = {f"/{name}" if name != _INDEX else "/": name for name in _FILES}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}

OWNER_PATHS: Final = frozenset({EVENTS})
PUBLIC_PATHS: Final = frozenset(_PATHS)
"""The page itself, which is the same for everybody."""

router = APIRouter()


def install(app: FastAPI, feed: LiveFeed) -> None:
    """Serve the live page and the events of ``feed``. The guard needs the paths of this module."""
    app.state.live_feed = feed
    app.state.end_streams = feed.end
    app.include_router(router)


@router.get(EVENTS, include_in_schema=False)  # clients of the document wait for an end
async def events(request: Request) -> Response:
    """A stream without end of frames, for the server's owner only; see docs/live-page.md."""
    feed = cast(LiveFeed, request.app.state.live_feed)
    return ClosingStreamingResponse(
        feed.events(),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
    )


def _sender(name: str) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return Response(_FILES[name], media_type=_TYPES[Path(name).suffix], headers=_HEADERS)

    return send


for _path, _name in _PATHS.items():
    router.add_api_route(
        _path, _sender(_name), methods=["GET", "HEAD"], include_in_schema=False, response_class=Response
    )


def create_live_app(feed: LiveFeed, config: ListenConfig) -> FastAPI:
    """Return an ASGI application that serves the live page and the events of ``feed``, and nothing else.

    It is for programs that have runtimes of their own.
    """
    paths = {"public_paths": PUBLIC_PATHS, "owner_paths": OWNER_PATHS}
    app = application("agentrt live page", config, **paths, openapi_url=None)
    install(app, feed)
    return app
