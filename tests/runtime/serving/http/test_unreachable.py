"""Why servers cannot be reached, on real sockets."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

from agentrt.runtime.serving.http.address import why_unreachable


def why(url: str) -> str:
    """Return what is said of a request, the same with both of httpx's clients."""
    timeout = httpx.Timeout(60, read=0.2)

    async def ask() -> None:
        async with httpx.AsyncClient(timeout=timeout) as client:
            await client.get(url)

    with pytest.raises(httpx.HTTPError) as caught:
        asyncio.run(ask())
    with httpx.Client(timeout=timeout) as client, pytest.raises(httpx.HTTPError) as other:
        client.get(url)
    assert why_unreachable(other.value) == why_unreachable(caught.value)
    return why_unreachable(caught.value)


@pytest.mark.slow
def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert why(f"http://127.0.0.1:{port}") == "it sends nothing any more"
    assert why(f"http://127.0.0.1:{port}") == "nothing listens there"
    assert why(f"http://localhost:{port}") == "nothing listens there", "of two addresses neither"
    assert why("http://no-such-host.invalid") == "there is no host of this name"


def test_another_error_is_quoted() -> None:
    assert why_unreachable(httpx.UnsupportedProtocol("no protocol")) == "no protocol"
    assert why_unreachable(httpx.ReadError("")) == "ReadError"
