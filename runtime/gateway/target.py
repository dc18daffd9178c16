"""Targets of requests to an engine: the client's path and query, under the engine's root."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from ..http.errors import ApiError


def engine_target(root: bytes, target: bytes) -> bytes:
    """Return ``target``, a client's path and query, under ``root``; its bytes are not changed.

    A path with a ``..`` segment is refused however it is written, encoded or not: the engine would leave
    ``root``, and the request may carry the engine's key.

    Raises:
        ApiError: 400, ``target`` has a fragment; 404, its path may lead outside ``root``.
    """
    if b"#" in target:
        raise ApiError(
            400, "a path and query cannot have a '#'. Leave it out, or encode it as %23.", code="invalid_url"
        )
    path = target.partition(b"?")[0]
    if not path.startswith(b"/") or any(map(_leads_up, _segments(path))):
        raise ApiError(404, "there is no such path at the engine.", code="unknown_url")
    return root + target


def _segments(path: bytes) -> list[bytes]:
    """Return the decoded segments of ``path``; some servers take backslashes and encoded slashes, too."""
    return unquote_to_bytes(path).replace(b"\\", b"/").split(b"/")


def _leads_up(segment: bytes) -> bool:
    """Whether a segment is ``..``, with or without parameters (RFC 3986 §3.3)."""
    return segment.partition(b";")[0] == b".."
