"""Why servers cannot be reached, on real sockets."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest

from agentrt.runtime.serving.http.address import why_unreachable


def why(url: str, uds: Path | None = None) -> str:
    """Return what is said of a request; without a socket, the same with both of httpx's clients."""
    timeout = httpx.Timeout(0.2)

    async def ask() -> None:
        transport = None if uds is None else httpx.AsyncHTTPTransport(uds=str(uds))
        async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:
            await client.get(url)

    with pytest.raises(httpx.HTTPError) as caught:
        asyncio.run(ask())
    said = why_unreachable(caught.value, uds)
    if uds is None:
        with httpx.Client(timeout=timeout) as client, pytest.raises(httpx.HTTPError) as other:
            client.get(url)
        assert why_unreachable(other.value) == said
    return said


def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert why(f"http://127.0.0.1:{port}") == "it sends nothing any more"
    assert why(f"http://127.0.0.1:{port}") == "nothing listens there"
    assert why(f"http://localhost:{port}") == "nothing listens there", "of two addresses neither"
    assert why("http://no-such-host.invalid") == "there is no host of this name"


def test_what_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
    assert why("http://x", tmp_path / "none") == "there is no such socket"
    assert why("http://x", tmp_path / "file") == "it is no socket"
    assert why("http://x", tmp_path / "left") == "nothing listens there"


def test_another_error_is_quoted() -> None:
    assert why_unreachable(httpx.UnsupportedProtocol("no protocol")) == "no protocol"
    assert why_unreachable(httpx.ReadError("")) == "ReadError"
