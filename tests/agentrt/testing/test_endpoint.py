"""`mock_endpoint`: clients on httpx and on httpx2 meet the same routes, and nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

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


def test_an_answer_is_streamed() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b'data: {"choices": []}\n\n'
        await asyncio.sleep(0)
        yield b"data: [DONE]\n\n"

    async def main() -> int:
        async with openai.AsyncOpenAI(base_url=URL, api_key="none") as client:
            stream = await client.chat.completions.create(model="m", messages=[], stream=True)
            return len([chunk async for chunk in stream])

    with mock_endpoint(URL) as endpoint:
        kind = {"content-type": "text/event-stream"}
        endpoint.post(CHAT).mock(return_value=httpx.Response(200, content=events(), headers=kind))
        assert asyncio.run(main()) == 1


def test_an_endpoint_that_is_down() -> None:
    client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0)
    with mock_endpoint(URL) as endpoint:
        endpoint.get("/models").mock(side_effect=httpx.ConnectError)
        with pytest.raises(openai.APIConnectionError):
            client.models.list()


def test_what_no_route_matches_reaches_no_network() -> None:
    with mock_endpoint(URL), pytest.raises(AssertionError, match="not mocked"):
        httpx2.get("http://other.test/")


def test_routes_that_were_not_called_are_an_error_unless_that_is_allowed() -> None:
    with mock_endpoint(URL, assert_all_called=False) as endpoint:
        endpoint.get("/models")
    with pytest.raises(AssertionError, match="not called"), mock_endpoint(URL) as endpoint:
        endpoint.get("/models")


def test_without_respx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "respx", None)
    with pytest.raises(MissingExtraError, match=r"agentrt\[testing\]"):
        mock_endpoint(URL)
