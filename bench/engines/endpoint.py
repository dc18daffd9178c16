"""Any server with OpenAI's API, over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final

from agentrt.errors import BenchPeerError

from .side import Answer, Request, Run

if TYPE_CHECKING:
    import httpx

_PATH: Final = "/v1/chat/completions"
_IDLE_S: Final = 600.0
_DELTAS: Final = ("content", "tool_calls", "reasoning_content")


def _service_tier(request: Request) -> dict[str, Any]:
    return {} if request.reactive else {"service_tier": "flex"}


def _priority(request: Request) -> dict[str, Any]:
    return {"priority": 0 if request.reactive else 1}  # the lower, the sooner


@cache
def _ssl_context() -> SSLContext:
    """Return one context for all connections: reading certificates takes longer than a short answer."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


class Endpoint:
    """A server. Its times are those of the client, HTTP included."""

    def __init__(
        self,
        name: str,
        url: str,
        own: Callable[[Request], dict[str, Any]] = _service_tier,
        *,
        model: str | None = None,
    ) -> None:
        """``url`` is without ``/v1``; ``own`` returns fields of a request that only this server knows."""
        self.name: Final = name
        self._url = url
        self._fields = {} if model is None else {"model": model}
        self._own = own

    def generate(self, request: Request) -> Answer:
        """See :meth:`Side.generate`. Callable from several threads at once."""
        return self.stream([request]).answers[0]

    def stream(self, requests: Sequence[Request]) -> Run:
        """See :meth:`Side.stream`.

        Raises:
            BenchPeerError: the server refuses a request, breaks off an answer, or does not answer in full.
        """
        return asyncio.run(self._stream(requests))

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
            verify=_ssl_context(),
        )

    async def _stream(self, requests: Sequence[Request]) -> Run:
        async with self.connections() as connections:
            begun = time.perf_counter()
            answers = await asyncio.gather(*(self._one(connections, each, begun) for each in requests))
            return Run(tuple(answers), time.perf_counter() - begun)

    async def _one(self, connections: httpx.AsyncClient, request: Request, begun: float) -> Answer:
        import httpx

        await asyncio.sleep(begun + request.at_s - time.perf_counter())
        since, first_s, usage = begun + request.at_s, None, dict[str, Any]()
        try:
            async with connections.stream("POST", _PATH, json=self._body(request)) as response:
                if response.is_error:
                    said = (await response.aread()).decode(errors="replace")
                    raise self.error(f"refused a request with {response.status_code}: {said[:500]}")
                async for line in response.aiter_lines():
                    if not line.startswith("data:") or line.endswith("[DONE]"):
                        continue
                    event: dict[str, Any] = json.loads(line.removeprefix("data:"))
                    if first_s is None and any(map(_has_answer, event.get("choices") or ())):
                        first_s = time.perf_counter() - since
                    usage = event.get("usage") or usage
        except httpx.HTTPError as error:
            raise self.error(f"broke off an answer ({type(error).__name__})") from error
        except ValueError as error:
            raise self.error("streams something else than completions") from error
        total_s, answered = time.perf_counter() - since, int(usage.get("completion_tokens", 0))
        if answered != request.max_tokens:
            raise self.error(f"answered {answered} of {request.max_tokens} tokens")
        # An answer that was held back until its end has no part before it.
        first_s = total_s if first_s is None else first_s
        return Answer(request, int(usage["prompt_tokens"]), answered, first_s, total_s, total_s - first_s)

    def _body(self, request: Request) -> dict[str, Any]:
        return {
            **self._fields,
            "messages": request.messages,
            **({} if request.tools is None else {"tools": list(request.tools)}),
            "max_tokens": request.max_tokens,
            "ignore_eos": request.ignore_eos,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._own(request),
        }

    def error(self, problem: str) -> BenchPeerError:
        """Return the error for a server that ``problem`` says the rest about."""
        return BenchPeerError(self.name, self._url, problem)


def _has_answer(choice: Mapping[str, Any]) -> bool:
    return any((choice.get("delta") or {}).get(part) for part in _DELTAS)  # it begins with one without any


def open_vllm(url: str) -> Endpoint:
    """Return the vLLM server at ``url``, which the user started.

    Raises:
        ConfigurationError: that is no URL of a server.
        BenchPeerError: it cannot be reached, or does not do the work.
    """
    from agentrt.runtime.serving.http.address import server_root

    root = str(server_root(url, "--peer", "a server", "it needs none")).rstrip("/")
    model = asyncio.run(_model(Endpoint("vllm", root)))
    peer = Endpoint("vllm", root, _priority, model=model)
    # A small request of either kind: better now than after an hour that priorities are refused.
    peer.stream([Request("Hello!", 2, reactive=reactive) for reactive in (True, False)])
    return peer


async def _model(peer: Endpoint) -> str:
    """Return the name of the server's model."""
    import httpx

    from agentrt.runtime.serving.http.address import why_unreachable

    try:
        async with peer.connections() as connections:
            models = (await connections.get("/v1/models")).raise_for_status().json()
            return str(models["data"][0]["id"])
    except httpx.HTTPStatusError as error:
        path, status = error.request.url.path, error.response.status_code
        raise peer.error(f"answers {path} with {status}") from error
    except httpx.HTTPError as error:
        raise peer.error(f"cannot be reached: {why_unreachable(error)}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise peer.error("does not describe itself as vLLM does") from error
