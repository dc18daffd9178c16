"""Headers that pass the gateway: all but a few of a request, and those of an allow list of an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import httpx

Header = tuple[bytes, bytes]

_HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
_NOT_FORWARDED: Final = frozenset({b"host", b"content-length", b"expect", b"origin", b"cookie"})
"""The guard has checked Host and Origin, which are those of the gateway. Cookies are those of other servers
on its host: the engine's own reach no client."""
_RETURNED: Final = frozenset(
    b"accept-ranges age allow cache-control content-disposition content-encoding content-language "
    b"content-length content-range content-security-policy content-type etag expires last-modified location "
    b"referrer-policy request-id retry-after retry-after-ms vary x-content-type-options x-frame-options "
    b"x-request-id x-should-retry".split()
)
_RETURNED_PREFIXES: Final = tuple(
    b"anthropic-ratelimit- openai- x-agentrt- x-litellm- x-ratelimit-".split(),
)
"""The dialects of ``speculate`` recognise an engine by some of these."""


def forwarded_headers(headers: Iterable[Header], *, authorization: bool) -> list[Header]:
    """Return the headers of a client's request that the engine gets, with or without ``authorization``."""
    dropped = _NOT_FORWARDED if authorization else _NOT_FORWARDED | {b"authorization"}
    return [(name, value) for name, value in _end_to_end(headers) if name not in dropped]


def client_headers(response: httpx.Response, *, with_length: bool = True) -> list[Header]:
    """Return the headers of ``response`` that the client gets, with or without the length of its body.

    Any other could decide what is not the engine's to decide: CORS headers which web pages may use the
    gateway, cookies and HSTS what is sent to other servers on its host, X-Accel-Redirect what a proxy before
    it sends.
    """
    returned = _RETURNED if with_length else _RETURNED - {b"content-length"}
    return [
        (name, value)
        for name, value in _end_to_end(response.headers.raw)
        if name in returned or name.startswith(_RETURNED_PREFIXES)
    ]


def _end_to_end(headers: Iterable[Header]) -> list[Header]:
    """Return ``headers`` in lower case, without hop-by-hop headers (RFC 9110 §7.6.1)."""
    lowered = [(name.lower(), value) for name, value in headers]
    dropped = _HOP_BY_HOP.union(
        part.strip().lower() for name, value in lowered if name == b"connection" for part in value.split(b",")
    )
    return [(name, value) for name, value in lowered if name not in dropped]
