"""Peers: servers of llama.cpp or vLLM that the user started, under the same schedules."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, get_args

from agentrt.errors import BenchPeerError, ConfigurationError

from ..common.token_prompts import TokenPrompts
from .sides import Arrival, Run, Served

if TYPE_CHECKING:
    import httpx

PeerName: TypeAlias = Literal["llama_cpp", "vllm"]

_BYTES: Final = range(3, 259)
"""Tokens of the bench's random model: its bytes, which any tokenizer of whole texts would give as well."""

_IDLE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Address and settings of a peer, as given by the user."""

    name: PeerName
    url: str
    """Without ``/v1``."""
    computes: str
    """Its precision and threads, which neither server tells."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``NAME=URL,PRECISION AND THREADS``; raise :class:`~agentrt.errors.ConfigurationError`."""
        from agentrt.runtime.http.address import server_root

        name, _, rest = text.partition("=")
        url, _, computes = rest.partition(",")
        for known in get_args(PeerName):
            if name == known and computes.strip():
                root = server_root(url, "--peer", "a server", "it needs none")
                return cls(known, str(root).rstrip("/"), computes.strip())
        raise ConfigurationError(
            f"--peer {text!r} cannot be read. Write NAME=URL,PRECISION AND THREADS with llama_cpp or vllm as "
            'the name, as in "llama_cpp=http://127.0.0.1:8080,Q8_0 on 2 threads".'
        )


class _RandomBytes:
    def __init__(self) -> None:
        self._random = random.Random(3)

    def take(self, tokens: int) -> list[int]:
        return self._random.choices(_BYTES, k=tokens)


class Peer:
    """A peer's server, driven over HTTP."""

    def __init__(self, address: PeerAddress, prompts: TokenPrompts | None = None) -> None:
        """Check that the server is reachable and serves the model.

        ``prompts`` are a given model's; without them they are random bytes, for the random model.

        Raises :class:`~agentrt.errors.BenchPeerError` if not.
        """
        self.name: Final = address.name
        self.computes: Final = address.computes
        self._url = address.url
        self._prompts = prompts or _RandomBytes()
        self._model, self.context_length = asyncio.run(self._describe())
        # A small request of either kind: better now than after an hour that priorities are refused.
        self.serve([Arrival(0.0, 8, 2, reactive) for reactive in (True, False)])

    def serve(self, arrivals: Sequence[Arrival]) -> Run:
        """Send each request at its arrival time and wait for the last answer.

        Prompts are token ids of exact length, all different. Raises
        :class:`~agentrt.errors.BenchPeerError` when a request is not answered in full.
        """
        return asyncio.run(self._serve(arrivals))

    def _client(self) -> httpx.AsyncClient:
        import httpx

        # All requests are sent when they arrive: who waits for whom is for the server to say.
        return httpx.AsyncClient(
            base_url=self._url,
            timeout=httpx.Timeout(_IDLE_S, connect=5),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )

    async def _describe(self) -> tuple[str, int]:
        """Return the model's name and its context length in tokens."""
        import httpx

        from agentrt.runtime.http.unreachable import why_unreachable

        try:
            async with self._client() as client:
                models = (await client.get("/v1/models")).raise_for_status().json()
                model = models["data"][0]
                if self.name == "vllm":
                    return str(model["id"]), int(model["max_model_len"])
                properties = (await client.get("/props")).raise_for_status().json()
                return str(model["id"]), int(properties["default_generation_settings"]["n_ctx"])
        except httpx.HTTPStatusError as error:
            path, status = error.request.url.path, error.response.status_code
            raise self._error(f"answers {path} with {status}") from error
        except httpx.HTTPError as error:
            raise self._error(f"cannot be reached: {why_unreachable(error)}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise self._error(f"does not describe itself as {self.name} does") from error

    async def _serve(self, arrivals: Sequence[Arrival]) -> Run:
        prompts = [self._prompts.take(arrival.prompt_tokens) for arrival in arrivals]
        async with self._client() as client:
            begun = time.perf_counter()
            served = await asyncio.gather(
                *(
                    self._one(client, arrival, prompt, begun)
                    for arrival, prompt in zip(arrivals, prompts, strict=True)
                )
            )
            return Run(tuple(served), time.perf_counter() - begun)

    async def _one(
        self, client: httpx.AsyncClient, arrival: Arrival, prompt: list[int], begun: float
    ) -> Served:
        import httpx

        await asyncio.sleep(begun + arrival.at_s - time.perf_counter())
        arrived = begun + arrival.at_s
        first, answered = None, 0
        request = client.stream("POST", "/v1/completions", json=self._body(arrival, prompt))
        try:
            async with request as response:
                if response.is_error:
                    said = (await response.aread()).decode(errors="replace")
                    raise self._error(f"refused a request with {response.status_code}: {said[:500]}")
                async for line in response.aiter_lines():
                    if not line.startswith("data:") or line.endswith("[DONE]"):
                        continue
                    event: dict[str, Any] = json.loads(line.removeprefix("data:"))
                    # A token need not have a text yet: its event counts.
                    if first is None and event.get("choices"):
                        first = time.perf_counter() - arrived
                    answered = (event.get("usage") or {}).get("completion_tokens", answered)
        except httpx.HTTPError as error:
            raise self._error(f"broke off an answer ({type(error).__name__})") from error
        except ValueError as error:
            raise self._error("streams something else than completions") from error
        if first is None or answered != arrival.answer_tokens:
            raise self._error(f"answered {answered} of {arrival.answer_tokens} tokens")
        return Served(arrival, len(prompt), first, time.perf_counter() - arrived)

    def _body(self, arrival: Arrival, prompt: list[int]) -> dict[str, Any]:
        own: dict[PeerName, dict[str, Any]] = {
            "llama_cpp": {"cache_prompt": False},
            # The lower, the sooner.
            "vllm": {"priority": 0 if arrival.reactive else 1},
        }
        return {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": arrival.answer_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **own[self.name],
        }

    def _error(self, problem: str) -> BenchPeerError:
        return BenchPeerError(self.name, self._url, problem)
