"""`mock_endpoint`: clients on httpx and on httpx2 meet the same routes, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any

import httpx
import httpx2
import openai
import pytest

from agentrt.errors import MissingExtraError
from agentrt.testing import mock_endpoint

URL = "http://model.test/v1"
CHAT = "/chat/completions"


def test_clients_on_either_library_are_answered() -> None:
    with mock_endpoint(URL) as endpoint:
        listed = endpoint.get("/models").respond(json={"object": "list", "data": []})
        client = openai.OpenAI(base_url=URL, api_key="none")
        assert list(client.models.list()) == []
        for library in (httpx, httpx2):
            assert library.get(f"{URL}/models").json()["data"] == []
    assert listed.call_count == 3
    assert listed.calls[0].request.headers["authorization"] == "Bearer none"


def test_the_example_in_the_docstring() -> None:
    example = re.search(r"::\n\n((?: {4}.*\n|\n)+)", inspect.getdoc(mock_endpoint) or "")
    assert example is not None
    code = textwrap.dedent(example[1])
    assert code.count("assert ") == 2
    exec(compile(code, "the example", "exec"), {})


STREAM = {"content-type": "text/event-stream"}
PIECE = b'data: {"choices": []}\n\n'
REQUEST: Any = {"model": "m", "messages": [], "stream": True}


class Sent:
    """A streamed answer, piece by piece, that notes what is sent and whether it is closed."""

    def __init__(self, pieces: int, error: Exception | None = None) -> None:
        self.log: list[str] = []
        self._pieces = pieces
        self._error = error

    def pieces(self) -> Iterator[bytes]:
        try:
            for _ in range(self._pieces):
                self.log.append("sent")
                yield PIECE
            if self._error is not None:
                raise self._error
        finally:
            self.log.append("closed")

    async def apieces(self) -> AsyncIterator[bytes]:
        with closing(self.pieces()) as pieces:
            for piece in pieces:
                await asyncio.sleep(0)
                yield piece


def read(sent: Sent, at_most: int) -> None:
    """Read chunks of the answer on the sync client, then leave the stream."""
    with mock_endpoint(URL) as endpoint, openai.OpenAI(base_url=URL, api_key="none") as client:
        endpoint.post(CHAT).mock(return_value=httpx.Response(200, content=sent.pieces(), headers=STREAM))
        with client.chat.completions.create(**REQUEST) as stream:
            for _ in range(at_most):
                next(stream)
                sent.log.append("read")
        assert sent.log[-1] == "closed"


def aread(sent: Sent, at_most: int) -> None:
    """The same on the async one."""

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=URL, api_key="none") as client:
            async with await client.chat.completions.create(**REQUEST) as stream:
                for _ in range(at_most):
                    await anext(stream)
                    sent.log.append("read")
            assert sent.log[-1] == "closed"  # before the event loop ends, which closes generators as well

    with mock_endpoint(URL) as endpoint:
        endpoint.post(CHAT).mock(return_value=httpx.Response(200, content=sent.apieces(), headers=STREAM))
        asyncio.run(main())


@pytest.mark.parametrize("how", [read, aread])
def test_pieces_arrive_as_they_are_sent_until_the_client_leaves(how: Any) -> None:
    sent = Sent(1000)
    how(sent, 3)
    assert sent.log == ["sent", "read"] * 3 + ["closed"]


ERRORS = [
    (httpx.ConnectError, openai.APIConnectionError, httpx2.ConnectError),
    (httpx.ReadTimeout, openai.APITimeoutError, httpx2.ReadTimeout),
    (httpx.RemoteProtocolError, openai.APIConnectionError, httpx2.RemoteProtocolError),
    (httpx.CloseError, openai.APIConnectionError, httpx2.NetworkError),
]


@pytest.mark.parametrize("how", [read, aread])
@pytest.mark.parametrize(("error", "raised", "cause"), ERRORS)
def test_a_stream_that_breaks_off(how: Any, error: Any, raised: Any, cause: Any) -> None:
    sent = Sent(2, error("broken"))
    with pytest.raises(raised) as caught:
        how(sent, 3)
    assert type(caught.value) is raised
    assert type(caught.value.__cause__) is cause
    assert sent.log == ["sent", "read"] * 2 + ["closed"]


@pytest.mark.parametrize(("error", "raised", "cause"), ERRORS)
def test_errors_are_those_of_the_clients_library(error: Any, raised: Any, cause: Any) -> None:
    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=URL, api_key="none", max_retries=0) as client:
            await client.models.list()

    client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0)
    with mock_endpoint(URL) as endpoint:
        endpoint.get("/models").mock(side_effect=error)
        for ask in (client.models.list, lambda: asyncio.run(main())):
            with pytest.raises(raised) as caught:
                ask()
            assert type(caught.value) is raised
            assert type(caught.value.__cause__) is cause
        with pytest.raises(getattr(httpx, cause.__name__), match="Mock Error"):
            httpx.get(f"{URL}/models")


def test_a_request_that_is_cancelled_counts_as_a_call() -> None:
    arrived = asyncio.Event()

    async def never(request: httpx.Request) -> httpx.Response:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=URL, api_key="none") as client:
            asking = asyncio.create_task(client.chat.completions.create(**REQUEST))
            await arrived.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    with mock_endpoint(URL) as endpoint:
        answered = endpoint.post(CHAT).mock(side_effect=never)
        asyncio.run(main())
        assert (answered.call_count, len(endpoint.calls)) == (1, 1)
        assert not answered.calls.last.has_response


def test_what_no_route_matches_reaches_no_network() -> None:
    with mock_endpoint(URL), pytest.raises(AssertionError, match="not mocked"):
        httpx2.get("http://other.test/")


def test_without_respx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "respx", None)
    with pytest.raises(MissingExtraError, match=r"agentrt\[testing\]"):
        mock_endpoint(URL)
