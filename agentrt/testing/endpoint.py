"""Scripted HTTP endpoints without a server or a socket, by respx, for clients on httpcore and httpcore2."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from ..extras import needs_extra

if TYPE_CHECKING:
    import httpx
    import respx

_CLASSES = (
    "_sync.connection.HTTPConnection",
    "_sync.connection_pool.ConnectionPool",
    "_sync.http_proxy.HTTPProxy",
    "_async.connection.AsyncHTTPConnection",
    "_async.connection_pool.AsyncConnectionPool",
    "_async.http_proxy.AsyncHTTPProxy",
)


def mock_endpoint(base_url: str = "", **options: Any) -> respx.MockRouter:
    """Return a respx router that answers requests below ``base_url`` in place of the network.

    It serves clients on httpx and on httpx2, which the OpenAI client uses and plain respx does not see::

        import openai
        from agentrt.testing import mock_endpoint

        with mock_endpoint("http://model.test/v1") as endpoint:
            listed = endpoint.get("/models").respond(json={"object": "list", "data": []})
            client = openai.OpenAI(base_url="http://model.test/v1", api_key="none")
            assert list(client.models.list()) == []
        assert listed.call_count == 1

    While the router is active, a request that no route matches raises, and leaving the block asserts that
    every route was called; a request that is cancelled before its answer counts. ``options`` are those of
    :class:`respx.MockRouter`, such as ``assert_all_called=False``. The router is also a decorator, and
    ``start`` and ``stop`` work without a block.

    Requests, responses and errors are those of httpx; to a client on httpx2, an ``httpx.ReadTimeout`` of a
    side effect is an ``httpx2.ReadTimeout``. Response content that is a generator is sent chunk by chunk, and
    the generator is closed when the client leaves the stream. A generator serves one request; for more, let a
    side effect make each response. Async clients need async generators, sync clients plain ones.

    Raises:
        MissingExtraError: respx is not installed.
    """
    with needs_extra("testing"):
        import respx
    router: respx.MockRouter = respx.mock(base_url=base_url, using=_registered_mocker(), **options)
    return router


@functools.cache
def _registered_mocker() -> str:
    """Register the mocker with respx, for the installed ones of httpcore and httpcore2; return its name."""
    from respx.mocks import HTTPCoreMocker

    installed = [core for core in ("httpcore", "httpcore2") if find_spec(core) is not None]
    for core in installed:
        importlib.import_module(core)

    class CoreMocker(_AsOnTheNetwork, HTTPCoreMocker):
        name = "agentrt"
        targets: ClassVar[list[str]] = [f"{core}.{kind}" for core in installed for kind in _CLASSES]

    return CoreMocker.name


class _AsOnTheNetwork:
    """What respx's mocker for httpcore lacks, as a mixin in front of it.

    Transport errors are those of the client's library, the generator of a streamed response is closed when
    the client leaves the stream, and requests that are cancelled before their response are counted.
    """

    routers: ClassVar[list[Any]]

    @classmethod
    def _send_sync_request(cls, httpx_request: httpx.Request, *, instance: Any, **kwargs: Any) -> Any:
        with _errors_of(_core_of(instance)):
            mocker: Any = super()
            return mocker._send_sync_request(httpx_request, instance=instance, **kwargs)

    @classmethod
    async def _send_async_request(cls, httpx_request: httpx.Request, *, instance: Any, **kwargs: Any) -> Any:
        with _errors_of(_core_of(instance)):
            mocker: Any = super()
            return await mocker._send_async_request(httpx_request, instance=instance, **kwargs)

    @classmethod
    async def async_handler(cls, httpx_request: httpx.Request) -> Any:
        """Return the response of the first router with a matching route."""
        try:
            mocker: Any = super()
            return await mocker.async_handler(httpx_request)
        except asyncio.CancelledError:
            cls._record_cancelled(httpx_request)
            raise

    @classmethod
    def _record_cancelled(cls, request: httpx.Request) -> None:
        """Count ``request`` as a call of the route that was answering it."""
        for router in cls.routers:
            for route in router.routes:
                if not route.pattern or route.pattern.match(request):
                    router.record(request, route=route)
                    return

    @classmethod
    def from_sync_httpx_response(cls, httpx_response: httpx.Response, target: Any, **kwargs: Any) -> Any:
        """Return the response in the library of ``target``, a connection or a pool."""
        core = _core_of(target)
        return _response(httpx_response, core, _Stream(httpx_response.stream, core))

    @classmethod
    async def from_async_httpx_response(
        cls, httpx_response: httpx.Response, target: Any, **kwargs: Any
    ) -> Any:
        """Return the same for an async ``target``."""
        core = _core_of(target)
        return _response(httpx_response, core, _AsyncStream(httpx_response.stream, core))


class _Stream:
    """The chunks of a response, each passed on as soon as it is made."""

    def __init__(self, stream: Any, core: ModuleType) -> None:
        self._stream = stream
        self._core = core

    def __iter__(self) -> Iterator[bytes]:
        with _errors_of(self._core):
            yield from self._stream

    def close(self) -> None:
        self._stream.close()
        chunks = getattr(self._stream, "_stream", None)  # httpx does not close the generator it wraps
        if inspect.isgenerator(chunks) and not chunks.gi_running:
            chunks.close()


class _AsyncStream:
    """The same for async targets."""

    def __init__(self, stream: Any, core: ModuleType) -> None:
        self._stream = stream
        self._core = core

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of(self._core):
            async for chunk in self._stream:
                yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
        chunks = getattr(self._stream, "_stream", None)
        if inspect.isasyncgen(chunks) and not chunks.ag_running:
            await chunks.aclose()


def _core_of(target: Any) -> ModuleType:
    return sys.modules[type(target).__module__.partition(".")[0]]


def _response(response: httpx.Response, core: Any, stream: Any) -> Any:
    return core.Response(
        status=response.status_code,
        headers=response.headers.raw,
        content=stream,
        extensions=response.extensions,
    )


@contextmanager
def _errors_of(core: ModuleType) -> Iterator[None]:
    """Raise httpx's transport errors as those of ``core``, from which its client makes its own."""
    import httpx

    try:
        yield
    except httpx.TransportError as error:
        for kind in type(error).__mro__:
            if hasattr(core, kind.__name__):
                raise getattr(core, kind.__name__)(str(error)) from error
        raise
