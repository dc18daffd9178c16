"""The engine behind a gateway, as HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

import httpx

from ..http.errors import ApiError
from .config import GatewayConfig

Header = tuple[bytes, bytes]

_CONNECT_TIMEOUT_S = 10.0
_KEEP_ALIVE_S = 4.0
"""Shorter than the five seconds after which many servers close: a connection that they are just closing must
not be used once more."""
_OF_ONE_CONNECTION = frozenset(
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
_NOT_SENT_ON = frozenset({b"host", b"content-length", b"expect"})
_OF_BODY = frozenset({b"content-length", b"content-encoding", b"content-type"})
_NOT_SENT_BACK = frozenset({b"date"})
"""This side's server writes its own."""


class Upstream:
    """Sends requests as they are: no redirects followed, no cookies kept, no settings of the environment."""

    def __init__(self, config: GatewayConfig) -> None:
        """Nothing is connected yet."""
        self._root = config.root()
        self._key = config.upstream_key
        self._keeps_authorization = config.tokens is None
        self._timeout = httpx.Timeout(config.upstream_timeout_s, connect=_CONNECT_TIMEOUT_S).as_dict()
        # The gateway's own limit of requests is the limit of connections.
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEEP_ALIVE_S
        )
        self._transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def send(
        self, method: str, target: bytes, headers: Iterable[Header], body: bytes
    ) -> httpx.Response:
        """Ask for ``target``, path and query as sent; the answer's head, to be closed by the caller.

        Raises:
            ApiError: 404, the path lies outside the engine's; 502, the engine is not there or does not speak
                HTTP; 504, it is too slow.
        """
        root = self._root.raw_path.rstrip(b"/")
        url = self._root.copy_with(raw_path=root + target)
        if not url.raw_path.startswith(root + b"/"):  # ".." leads out of it
            raise ApiError(404, "there is no such path at the engine.", code="unknown_url")
        request = httpx.Request(
            method, url, headers=self._sent_on(headers), content=body, extensions={"timeout": self._timeout}
        )
        try:
            return await self._transport.handle_async_request(request)
        except httpx.HTTPError as error:
            raise upstream_error(error) from error

    def _sent_on(self, headers: Iterable[Header]) -> list[Header]:
        dropped = _NOT_SENT_ON
        if self._key is not None or not self._keeps_authorization:
            dropped |= {b"authorization"}  # the gateway's own token is none of the engine's business
        kept = _without(headers, dropped)
        return kept if self._key is None else [*kept, (b"authorization", b"Bearer " + self._key.encode())]


def sent_back(response: httpx.Response, *, with_body: bool = True) -> list[Header]:
    """The headers of a response that are the client's to see; ``with_body``, those of its body, too."""
    return _without(response.headers.raw, _NOT_SENT_BACK if with_body else _NOT_SENT_BACK | _OF_BODY)


async def raw_pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes, encoded as it is."""
    async for piece in response.aiter_raw():
        yield piece


def upstream_error(error: httpx.HTTPError) -> ApiError:
    """What is said of an engine that fails."""
    if isinstance(error, httpx.TimeoutException):
        return ApiError(
            504,
            "the engine behind this gateway did not answer in time. Ask again, or for less.",
            kind="server_error",
            code="upstream_timeout",
        )
    said = f" ({error})" if str(error) else ""
    return ApiError(
        502,
        f"the engine behind this gateway cannot be reached, or broke off{said}. Ask again when it is back.",
        kind="server_error",
        code="upstream_unreachable",
    )


def _without(headers: Iterable[Header], dropped: frozenset[bytes]) -> list[Header]:
    lowered = [(name.lower(), value) for name, value in headers]
    named = {
        part.strip().lower() for name, value in lowered if name == b"connection" for part in value.split(b",")
    }
    dropped |= _OF_ONE_CONNECTION | named
    return [(name, value) for name, value in lowered if name not in dropped]
