"""Scripted HTTP endpoints without a server or a socket, by respx."""

from __future__ import annotations

import functools
import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from ..extras import needs_extra

if TYPE_CHECKING:
    import respx

_NAME = "agentrt"
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
    every route was called. ``options`` are those of :class:`respx.MockRouter`, such as
    ``assert_all_called=False``. The router is also a decorator, and ``start`` and ``stop`` work without a
    block. Requests and responses are those of httpx.

    Raises:
        MissingExtraError: respx is not installed.
    """
    with needs_extra("testing"):
        import respx
    router: respx.MockRouter = respx.mock(base_url=base_url, using=_mocker(), **options)
    return router


@functools.cache
def _mocker() -> str:
    """Register the mocker for httpcore and httpcore2, as far as they are installed; return its name."""
    from respx.mocks import HTTPCoreMocker

    installed = [package for package in ("httpcore", "httpcore2") if find_spec(package) is not None]
    for package in installed:
        importlib.import_module(package)

    class AnyCoreMocker(HTTPCoreMocker):
        name = _NAME
        targets: ClassVar[list[str]] = [f"{package}.{kind}" for package in installed for kind in _CLASSES]

        @classmethod
        def from_sync_httpx_response(cls, httpx_response: Any, target: Any, **kwargs: Any) -> Any:
            core: Any = sys.modules[type(target).__module__.partition(".")[0]]
            return core.Response(
                status=httpx_response.status_code,
                headers=httpx_response.headers.raw,
                content=httpx_response.stream,
                extensions=httpx_response.extensions,
            )

    return _NAME
