"""A scripted endpoint for real clients, which each adapter's tests give their form of requests."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, ClassVar

import httpx

from agentrt import SpeculationConfig, speculable
from agentrt.config import TurnAhead
from agentrt.perfmodel import TurnTimes
from agentrt.testing import mock_endpoint, run_in_virtual_time
from tests.adapters.doubles import Oracle

Script = list[list[tuple[str, dict[str, Any]]]]
THREE: Script = [[("look", {"q": f"q{turn}"})] for turn in range(3)]
TIMES = TurnTimes(generation=40, draft=5, tool=30)
AHEAD = SpeculationConfig(turn_ahead=TurnAhead(depth=3))
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


async def plainly(client: Any, call: Any) -> str:
    """Run the tool of a call as a loop without speculation does."""
    function = getattr(call, "function", call)
    assert function.name == "look"
    arguments = call.input if call.type == "tool_use" else json.loads(function.arguments)
    await asyncio.sleep(TIMES.tool)
    return f"found {arguments['q']} 3"


def timed(
    adapter: Any,
    endpoint: ScriptedEndpoint,
    loop: Callable[..., Any],
    wrong: Sequence[int] | None,
    config: SpeculationConfig | None = None,
) -> tuple[list[Any], float, Any]:
    """Run a loop; return transcript, seconds and client, which speculates unless ``wrong`` is None."""

    async def main() -> tuple[list[Any], float, Any]:
        run: Any = plainly
        async with endpoint.async_client() as client:
            if wrong is not None:
                oracle = Oracle(THREE, wrong, delay=TIMES.draft)
                client = adapter.speculate(client, oracle, tools=[look_tool(TIMES.tool)], config=config)
                run = adapter.arun_tool
                assert type(client).__name__ == endpoint.kinds[1].__name__
            said = await loop(client, run=run)
            return said, asyncio.get_running_loop().time(), client

    return run_in_virtual_time(main)
