"""An engine that sees several apps as one client: what they may send it, and whose it is that it stores."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

import httpx

from ..http.errors import ApiError
from ..http.strict_json import compact_json, parse_body
from .answer_id import noting_event_id, noting_id
from .responses_body import inseparable, previous_not_found, previous_response
from .shared_ids import SharedIds
from .stored_ids import StoredIds
from .upstream import is_event_stream

_STORES_NOTHING: Final = {
    "GET": frozenset(
        {
            b"/api/tags",
            b"/api/version",
            b"/health",
            b"/metrics",
            b"/openapi.json",
            b"/ping",
            b"/v1/models",
            b"/version",
        }
    ),
    "POST": frozenset(
        {
            b"/api/chat",
            b"/api/embed",
            b"/api/embeddings",
            b"/api/generate",
            b"/api/show",
            b"/apply-template",
            b"/classify",
            b"/completion",
            b"/detokenize",
            b"/generate",
            b"/infill",
            b"/pooling",
            b"/rerank",
            b"/score",
            b"/tokenize",
            b"/v1/audio/speech",
            b"/v1/audio/transcriptions",
            b"/v1/audio/translations",
            b"/v1/chat/completions",
            b"/v1/chat/completions/batch",
            b"/v1/completions",
            b"/v1/embeddings",
            b"/v1/images/edits",
            b"/v1/images/generations",
            b"/v1/messages",
            b"/v1/messages/count_tokens",
            b"/v1/moderations",
            b"/v1/rerank",
            b"/v1/score",
            b"/v2/embed",
            b"/v2/rerank",
        }
    ),
}
_MODEL: Final = b"/v1/models/"
_MAKES: Final = {b"/v1/contexts": "context", b"/v1/responses": "response"}
_ID: Final = rb"(?P<id>[A-Za-z0-9._~=+:-]+)"
_BY_ID: Final = {
    ("GET", "response"): re.compile(rb"/v1/responses/%b(/input_items)?" % _ID),
    ("POST", "response"): re.compile(rb"/v1/responses/%b/cancel" % _ID),
    ("DELETE", "response"): re.compile(rb"/v1/responses/%b" % _ID),
    ("GET", "context"): re.compile(rb"/v1/contexts/%b" % _ID),
    ("POST", "context"): re.compile(rb"/v1/contexts/%b/chat/completions" % _ID),
    ("DELETE", "context"): re.compile(rb"/v1/contexts/%b" % _ID),
}


class Separation:
    """What apps may send to such an engine, and the ids of the responses and contexts that each has made.

    Relayed are routes of which it is known that they store nothing, or how to tell apart what they store. By
    any other an app could list, read or delete what another one has stored. For one event loop.
    """

    def __init__(self, shared: SharedIds | None) -> None:
        """No app has made anything yet; ``shared`` has what was made through other replicas."""
        self._ids = {kind: StoredIds() for kind in _MAKES.values()}
        self._shared = shared

    def makes(self, method: str, path: bytes) -> bool:
        """Return whether the answer to such a request has the id of what was stored."""
        return method == "POST" and path in _MAKES

    async def permit(self, app: str, method: str, path: bytes, body: bytes) -> bytes:
        """Return the body to send for a request of ``app``; if it has been checked, as it was read.

        Raises:
            ApiError: 403, it is not known what such requests store, or how to tell it apart; 404, ``app`` has
                made nothing with this id; 400, 403 or 413, see :func:`parse_body` and
                :func:`previous_response`.
        """
        if method == "HEAD":
            method = "GET"
        if path in _STORES_NOTHING.get(method, ()) or (method == "GET" and path.startswith(_MODEL)):
            return body
        if self.makes(method, path):
            return await self._checked(app, body) if _MAKES[path] == "response" else body
        for (allowed, kind), pattern in _BY_ID.items():
            if method == allowed and (found := pattern.fullmatch(path)):
                if not await self._use(app, kind, found["id"].decode()):
                    raise _not_found(kind)
                return body
        raise inseparable(f"{method} {path.decode('ascii', 'replace')}: it may show or change", "Give")

    def noting(
        self, app: str, path: bytes, response: httpx.Response, pieces: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the ``pieces`` of an answer that :meth:`makes` something; its id becomes one of ``app``."""
        if not response.is_success:
            return pieces
        note = partial(self._add, app, _MAKES[path])
        return noting_event_id(pieces, note) if is_event_stream(response) else noting_id(pieces, note)

    async def _checked(self, app: str, body: bytes) -> bytes:
        fields = parse_body(body)
        if isinstance(fields, dict):
            previous = previous_response(fields)
            if previous is not None and not await self._use(app, "response", previous):
                raise previous_not_found()
        # Of a name that is there twice, the engine could take the other value.
        return compact_json(fields).encode()

    async def _add(self, app: str, kind: str, id: str) -> None:
        if self._ids[kind].add(app, id) and self._shared is not None:
            await self._shared.add(app, kind, id)

    async def _use(self, app: str, kind: str, id: str) -> bool:
        """Return whether ``app`` has made what has this id."""
        if self._ids[kind].use(app, id):
            return True
        if self._shared is None or not await self._shared.use(app, kind, id):
            return False
        return self._ids[kind].add(app, id)


def _not_found(kind: str) -> ApiError:
    return ApiError(
        404,
        f"there is no such {kind}, or this gateway knows it no longer. Make a new one.",
        param=f"{kind}_id",
        code=f"{kind}_not_found",
    )
