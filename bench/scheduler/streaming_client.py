"""A client of OpenAI-compatible servers that times streamed answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentrt.errors import BenchPeerError

if TYPE_CHECKING:
    import httpx

_IDLE_S: Final = 600.0
_DELTAS: Final = ("content", "tool_calls", "reasoning_content")


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """Times in seconds and tokens of one answer."""

    first_s: float
    """To the first event that has a part of the answer. It is the end where the server sends none, as a call
    is that has no end yet."""
    total_s: float
    prompt_tokens: int
    answer_tokens: int


class StreamingClient:
    """Client of one server."""

    def __init__(self, name: str, url: str) -> None:
        """``url`` is without ``/v1``."""
        self.name: Final = name
        self._url = url

    def connections(self) -> httpx.AsyncClient:
        """Return connections to the server, an asynchronous context manager."""
        import httpx

        # All requests are sent when they arrive: who waits for whom is for the server to say. Each has a
        # connection of its own, because a server may close an idle one just when the next request is sent.
        return httpx.AsyncClient(
            base_url=self._url,
            timeout=httpx.Timeout(_IDLE_S, connect=5),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
        )

    async def stream(
        self, connections: httpx.AsyncClient, path: str, body: Mapping[str, Any], since: float
    ) -> StreamedAnswer:
        """Post ``body``, whose ``max_tokens`` the answer must have; times count from ``since``.

        Raises:
            BenchPeerError: the server refuses the request, breaks off the answer, or does not answer in full.
        """
        import httpx

        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        first: float | None = None
        usage: Mapping[str, Any] = {}
        try:
            async with connections.stream("POST", path, json=asked) as response:
                if response.is_error:
                    said = (await response.aread()).decode(errors="replace")
                    raise self.error(f"refused a request with {response.status_code}: {said[:500]}")
                async for line in response.aiter_lines():
                    if not line.startswith("data:") or line.endswith("[DONE]"):
                        continue
                    event: dict[str, Any] = json.loads(line.removeprefix("data:"))
                    if first is None and any(map(_has_answer, event.get("choices") or ())):
                        first = time.perf_counter() - since
                    usage = event.get("usage") or usage
        except httpx.HTTPError as error:
            raise self.error(f"broke off an answer ({type(error).__name__})") from error
        except ValueError as error:
            raise self.error("streams something else than completions") from error
        answered = int(usage.get("completion_tokens", 0))
        if answered != body["max_tokens"]:
            raise self.error(f"answered {answered} of {body['max_tokens']} tokens")
        total = time.perf_counter() - since
        return StreamedAnswer(total if first is None else first, total, int(usage["prompt_tokens"]), answered)

    def error(self, problem: str) -> BenchPeerError:
        """Return the error for a server that ``problem`` says the rest about."""
        return BenchPeerError(self.name, self._url, problem)


def _has_answer(choice: Mapping[str, Any]) -> bool:
    # A token of a completion need not have a text yet: its event counts. A chat begins with one without any.
    delta = choice.get("delta")
    return "text" in choice if delta is None else any(delta.get(part) for part in _DELTAS)
