"""Headers that pass the gateway: all but a few of a request, and those of an allow list of an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import httpx

Header = tuple[bytes, bytes]

_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_FORWARDED: Final = frozenset({b"host", b"content-length", b"expect", b"origin", b"cookie"})
"""The guard has checked Host and Origin, which are those of the gateway. Cookies are those of other servers
on its host: the engine's own reach no client."""
_BODY_HEADERS: Final = frozenset({b"content-length", b"content-encoding", b"content-type"})
_RETURNED: Final = _BODY_HEADERS | {
    b"accept-ranges",
    b"age",
    b"allow",
    b"cache-control",
    b"content-disposition",
    b"content-language",
    b"content-range",
    b"content-security-policy",
    b"etag",
    b"expires",
    b"last-modified",
    b"location",
    b"referrer-policy",
    b"request-id",
    b"retry-after",
    b"retry-after-ms",
    b"vary",
    b"x-content-type-options",
    b"x-frame-options",
    b"x-request-id",
    b"x-should-retry",
}
_RETURNED_PREFIXES: Final = (
    b"anthropic-ratelimit-",
    b"openai-",
    b"x-agentrt-",
    b"x-litellm-",
    b"x-ratelimit-",
)
"""The dialects of ``speculate`` recognise an engine by some of these."""


def forwarded_headers(headers: Iterable[Header], *, authorization: bool) -> list[Header]:
    """Return the headers of a client's request that the engine gets, with or without ``authorization``."""
    dropped = _NOT_FORWARDED if authorization else _NOT_FORWARDED | {b"authorization"}
    return [(name, value) for name, value in _end_to_end(headers) if name not in dropped]


def client_headers(response: httpx.Response, *, with_body: bool = True) -> list[Header]:
    """Return the headers of ``response`` that the client gets; ``with_body`` keeps those of its body.

    Any other could decide what is not the engine's to decide: CORS headers which web pages may use the
    gateway, cookies and HSTS what is sent to other servers on its host, X-Accel-Redirect what a proxy before
    it sends.
    """
    returned = _RETURNED if with_body else _RETURNED - _BODY_HEADERS
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
