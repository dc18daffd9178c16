"""Checks on every request: host, origin, token, size and time."""

from __future__ import annotations

import asyncio
import posixpath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .admission import Admission, HeldBytes
from .config import ListenConfig
from .errors import MESSAGES_ROUTES, OLLAMA_ROUTES, ApiError, rate_limit_error
from .identity import LOCAL_APP, METRICS_READER
from .request_state import hinted_priority
from .streaming import ending_connection, in_pieces

if TYPE_CHECKING:
    from .connection import Connection

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::"})
_METRICS_PATH: Final = "/metrics"


def check_host(config: ListenConfig, headers: Headers) -> None:
    """Check the ``Host`` of a request: a loopback name, or the address in ``config``.

    A web page may have a name that resolves to this machine (DNS rebinding): its browser then takes the
    server for the page's own site, and sends that name.

    Raises:
        ApiError: 421, it is not accepted.
    """
    # The names of a wildcard address are not known here, but each request needs a token there. No browser
    # connects to a Unix socket.
    if config.host in _WILDCARD_HOSTS or config.uds is not None:
        return
    host = headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name not in _LOOPBACK_NAMES | {config.host.lower()}:
        raise ApiError(
            421, f"this server is not {host!r}. Use the address it listens on.", code="invalid_host"
        )


class Guard:
    """ASGI middleware: refuses forbidden requests.

    In the state of the others it stores the app as ``app``, as ``owner`` whether that is the owner's, and the
    bytes that are held for the request as ``held_bytes``.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: ListenConfig,
        admission: Admission,
        public_paths: frozenset[str],
        owner_paths: frozenset[str],
    ) -> None:
        """``config`` has the address, the tokens and the limits; ``admission`` counts bytes.

        ``public_paths`` need no token, besides ``/health``, as supervisors have none; ``owner_paths`` that of
        the owner, besides ``/metrics``, which tells what all apps do.
        """
        self._app = app
        self._public = public_paths | {"/health"}
        self._of_owner = owner_paths | {_METRICS_PATH}
        self._admission = admission
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a forbidden request with an error; pass any other on, with its limits."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection: Connection | None = scope["state"].get("connection")
        try:
            headers = Headers(scope=scope)
            check_host(self._config, headers)
            self._check_origin(headers)
            app, scope["state"]["owner"], proven = self._identify(scope, headers)
            if proven and connection is not None and not connection.table.prove(connection, app):
                raise rate_limit_error("this app has too many connections. Close some, and try again.")
            held = HeldBytes(self._admission.bytes, app, hinted_priority(headers))
            self._hold(int(headers.get("content-length", 0)), held)  # before the body is read
        except ApiError as refusal:
            await _closing(refusal).response(scope["path"])(scope, receive, send)
            return
        with held:
            scope["state"] |= {"app": app, "held_bytes": held}
            send = in_pieces(send if proven else ending_connection(send), held, connection)
            await self._app(scope, self._limit_body(receive, held), send)

    def _check_origin(self, headers: Headers) -> None:
        """Refuse the web pages of other sites."""
        origin = headers.get("origin")
        if origin is None or origin in self._config.cors_origins:
            return
        if origin.partition("://")[2] == headers.get("host", ""):
            return
        raise ApiError(
            403,
            "web pages of other sites may not use this server. Send the request from a program, or start the "
            "server with --cors-origin and the origin of the page.",
            code="invalid_origin",
        )

    def _identify(self, scope: Scope, headers: Headers) -> tuple[str, bool, bool]:
        """Return the app of the request, whether it is the owner's, and whether the request may be any.

        The app is that of the token, else that of the connection's peer. Without tokens all are the owner's.
        A token for metrics reads them, and is none for all else.
        """
        peer: str = scope["state"].get("peer", LOCAL_APP)
        tokens = self._config.tokens
        if tokens is None:
            return peer, True, True
        # Anthropic's clients send a token in either header.
        app = tokens.app_of(headers.get("authorization", ""))
        if app is None and "x-api-key" in headers:
            app = tokens.app_of(f"Bearer {headers['x-api-key']}")
        reads = scope["method"] in ("GET", "HEAD")
        if app is not None and app != METRICS_READER:
            is_owner = app == tokens.owner
            # Without ".." and "//", as an engine behind a gateway may read the path.
            if not is_owner and posixpath.normpath("/" + scope["path"].lstrip("/")) in self._of_owner:
                raise ApiError(
                    403,
                    "it tells what all apps do. Send the owner's token: the first app's in the token file.",
                    code="owner_only",
                )
            return app, is_owner, True
        if app == METRICS_READER and reads and scope["path"] == _METRICS_PATH:
            return app, False, True
        if reads and scope["path"] in self._public:
            return peer, False, False
        if app == METRICS_READER:
            raise ApiError(
                403,
                f"the token of {METRICS_READER} reads {_METRICS_PATH} and nothing else. Send that of an app.",
                code="metrics_only",
            )
        clients = "OLLAMA_API_KEY in the environment of Ollama's Python client"
        if scope["path"] in MESSAGES_ROUTES:
            clients = "ANTHROPIC_AUTH_TOKEN in the environment of Anthropic's clients"
        elif not scope["path"].startswith(OLLAMA_ROUTES):
            clients = "api_key in OpenAI's clients"
        raise ApiError(
            401,
            f"no valid token. Send 'Authorization: Bearer TOKEN' with a token of this server ({clients}).",
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )

    def _hold(self, length: int, held: HeldBytes) -> None:
        """Hold the bytes of a body, of this length so far."""
        if length > self._config.max_body_bytes:
            raise ApiError(
                413,
                f"the body has more than {self._config.max_body_bytes} bytes. Send a smaller one.",
                code="request_too_large",
            )
        held.grow_to(length)

    def _limit_body(self, receive: Receive, held: HeldBytes) -> Receive:
        """Wrap ``receive``: the body must arrive within its time, size and the bytes that its app may hold.

        Later messages are unlimited. A refused request ends the connection: the rest of its body is not read.
        """
        received = 0
        complete = False
        deadline = asyncio.get_running_loop().time() + self._config.body_timeout_s

        async def limited() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
                received += len(message.get("body", b""))
                complete = not message.get("more_body", False)
                self._hold(received, held)
            except TimeoutError:
                raise _closing(ApiError(408, "the body took too long. Send it faster.")) from None
            except ApiError as refusal:
                raise _closing(refusal) from None
            return message

        return limited


def _closing(refusal: ApiError) -> ApiError:
    """Return ``refusal`` as one that ends the connection."""
    refusal.headers = {**(refusal.headers or {}), "connection": "close"}
    return refusal
