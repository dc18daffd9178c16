"""A scripted endpoint for real clients, which each adapter's tests give their form of requests."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, ClassVar

import httpx

from agentrt import speculable
from agentrt.testing import mock_endpoint

Script = list[list[tuple[str, dict[str, Any]]]]
HI: Any = {"role": "user", "content": "hi"}
STREAM = "text/event-stream"
_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


@contextmanager
def answered_by(side_effect: Callable[[httpx.Request], Any]) -> Iterator[None]:
    """Answer the model requests of all clients, to any host, by ``side_effect``."""
    with mock_endpoint(assert_all_called=False) as router:
        for path in _PATHS:
            router.post(path=path).mock(side_effect=side_effect)
        yield


@asynccontextmanager
async def answered_client(
    kind: Any, url: str, side_effect: Callable[[httpx.Request], Any], *, max_retries: int = 0
) -> AsyncIterator[Any]:
    """An async client of this class whose requests ``side_effect`` answers inside the block."""
    with answered_by(side_effect):
        async with kind(base_url=url, api_key="none", max_retries=max_retries) as client:
            yield client


class ScriptedEndpoint(ABC):
    """Answers turn by turn with the calls of ``script``, then with text. Results say which turn it is."""

    url: ClassVar[str]
    kinds: ClassVar[tuple[Any, Any]]
    """The classes of its sync and async clients."""

    def __init__(
        self, script: Script, *, delay: float = 0.0, gate: Callable[[int], None] = lambda turn: None
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self._script = script
        self._delay = delay
        self._gate = gate

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client that this endpoint answers inside the block."""
        with (
            answered_by(self.answer),
            self.kinds[0](base_url=self.url, api_key="none", max_retries=0) as client,
        ):
            yield client

    def async_client(self) -> AbstractAsyncContextManager[Any]:
        """An async client that this endpoint answers inside the block."""
        return answered_client(self.kinds[1], self.url, self.aanswer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        turn, response = self._received(request)
        self._gate(turn)
        return response

    async def aanswer(self, request: httpx.Request) -> httpx.Response:
        _, response = self._received(request)
        await asyncio.sleep(self._delay)
        return response

    def _received(self, request: httpx.Request) -> tuple[int, httpx.Response]:
        body = json.loads(request.content)
        self.requests.append(body)
        return self._respond(request.url.path, body)

    @abstractmethod
    def _respond(self, path: str, body: dict[str, Any]) -> tuple[int, httpx.Response]:
        """Return the turn and the answer to it."""


def look_tool(seconds: float, runs: list[str] | None = None) -> Any:
    """A tool that takes ``seconds``, and adds to ``runs`` what it is asked for."""

    @speculable
    async def look(q: str, limit: int = 3) -> str:
        if runs is not None:
            runs.append(q)
        await asyncio.sleep(seconds)
        return f"found {q} {limit}"

    return look
