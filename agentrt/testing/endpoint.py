"""Scripted HTTP endpoints without a server or a socket, by respx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..extras import needs_extra
from .core_mocker import registered_mocker

if TYPE_CHECKING:
    import respx


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
    router: respx.MockRouter = respx.mock(base_url=base_url, using=registered_mocker(), **options)
    return router
