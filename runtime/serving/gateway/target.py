"""Targets of requests to an engine: the client's path and query, under the engine's root."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from ..http.errors import ApiError

_SEPARATORS: Final = re.compile(rb"[/\\;?#\x00]")
"""Where servers end a segment of a path, once it is decoded: some take backslashes and encoded slashes, cut
off parameters (RFC 3986 §3.3), look for the query after decoding, or end texts at a NUL."""
_MAX_ENCODINGS: Final = 4
_IGNORED: Final = bytes(range(0x21)) + b"\x7f"
"""Blanks and control characters, which some servers remove."""


def engine_target(root: bytes, target: bytes) -> bytes:
    """Return ``target``, a client's path and query, under ``root``; its bytes are not changed.

    Raises:
        ApiError: 400, ``target`` has a fragment; 404, its path may lead outside ``root``.
    """
    if b"#" in target:
        raise ApiError(
            400, "a path and query cannot have a '#'. Leave it out, or encode it as %23.", code="invalid_url"
        )
    path = target.partition(b"?")[0]
    if not path.startswith(b"/") or _leads_up(path):
        raise ApiError(404, "there is no such path at the engine.", code="unknown_url")
    return root + target


def _leads_up(path: bytes) -> bool:
    """Whether a server may read a ``..`` segment in ``path``, however it is written.

    The engine would leave its root, and the request may carry its key. The segment may be encoded several
    times, since proxies in front of an engine decode paths, too, or in more bytes than UTF-8 allows.
    """
    for _ in range(_MAX_ENCODINGS):
        path = unquote_to_bytes(path)
    if unquote_to_bytes(path) != path or not _is_utf_8(path):
        return True
    return any(part.translate(None, _IGNORED) == b".." for part in _SEPARATORS.split(path))


def _is_utf_8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
