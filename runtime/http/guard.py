"""What every request passes first: where it comes from, who asks, and how much it sends."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .config import ListenConfig
from .errors import ApiError
from .identity import ANYONE

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARDS = frozenset({"0.0.0.0", "::"})
_OPEN_TO_ALL = frozenset({"/health"})
"""What may be asked without a token: a supervisor that asks for signs of life has none."""


class Guard:
    """ASGI middleware. Leaves the app that asks as ``app`` in the request's state."""

    def __init__(self, app: ASGIApp, config: ListenConfig) -> None:
        """``config`` says what is allowed."""
        self._app = app
        self._config = config
        self._hosts = _LOOPBACK_NAMES | {config.host.lower()}
        # By which names a wildcard address is reached is not known here, but each request has a token there.
        # And no browser speaks to a Unix socket.
        self._any_host = config.host in _WILDCARDS or config.uds is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is not allowed; pass on the rest."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check_origin(headers)
            scope["state"]["app"] = self._identify(scope, headers)
            self._check_length(headers)
        except ApiError as refusal:
            await refusal.response()(scope, receive, send)
            return
        await self._app(scope, self._bounded(receive), self._patient(send))

    def _check_origin(self, headers: Headers) -> None:
        """Keep web pages out: those of other names that resolve to this machine, and those of other sites."""
        host = headers.get("host", "")
        if not self._any_host and _name(f"//{host}") not in self._hosts:
            raise ApiError(
                421, f"this server is not {host!r}. Ask it by the address it listens on.", code="invalid_host"
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise ApiError(403, "web pages of other sites may not ask this server.", code="invalid_origin")

    def _identify(self, scope: Scope, headers: Headers) -> str:
        peer: str = scope["state"].get("peer", ANYONE)
        if self._config.tokens is None:
            return peer
        app = self._config.tokens.app_of(headers.get("authorization", ""))
        if app is not None:
            return app
        if scope["path"] in _OPEN_TO_ALL:
            return peer
        raise ApiError(
            401,
            "no such token. Send 'Authorization: Bearer TOKEN' with a token of this server (api_key in "
            "OpenAI's clients).",
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )

    def _check_length(self, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._config.max_body_bytes:
            raise self._too_large()

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            f"the body has more than {self._config.max_body_bytes} bytes. Send less at once.",
            code="request_too_large",
            headers={"connection": "close"},
        )

    def _bounded(self, receive: Receive) -> Receive:
        """``receive``, until the body is there within its time and size; then what it always is."""
        received = 0
        complete = False
        deadline = asyncio.get_running_loop().time() + self._config.body_timeout_s

        async def bounded() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise ApiError(
                    408, "the body took too long. Send it faster.", headers={"connection": "close"}
                ) from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > self._config.max_body_bytes:
                raise self._too_large()
            return message

        return bounded

    def _patient(self, send: Send) -> Send:
        """``send``, as long as the client takes what it is sent; then the request is cancelled."""

        async def patient(message: Message) -> None:
            async with asyncio.timeout(self._config.write_timeout_s):
                await send(message)

        return patient


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
