"""Peers: servers of llama.cpp or vLLM under the same schedules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, get_args

from agentrt.errors import ConfigurationError

from .sides import Arrival, Run, Served
from .streaming_client import StreamingClient
from .texts import PromptFields, RandomByteFields

if TYPE_CHECKING:
    import httpx

PeerName: TypeAlias = Literal["llama_cpp", "vllm"]


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
        from agentrt.runtime.serving.http.address import server_root

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


class Peer:
    """A peer's server, driven over HTTP."""

    def __init__(self, address: PeerAddress, prompts: PromptFields | None = None) -> None:
        """Check that the server is reachable and serves the model.

        ``prompts`` are a given model's; without them they are random bytes, for the random model.

        Raises :class:`~agentrt.errors.BenchPeerError` if not.
        """
        self.name: Final = address.name
        self.computes: Final = address.computes
        self._client = StreamingClient(address.name, address.url)
        self._prompts = prompts or RandomByteFields()
        self._model, self.context_length = asyncio.run(self._describe())
        # A small request of either kind: better now than after an hour that priorities are refused.
        self.serve([Arrival(0.0, 8, 2, reactive) for reactive in (True, False)])

    def serve(self, arrivals: Sequence[Arrival]) -> Run:
        """Send each request at its arrival time and wait for the last answer.

        Prompts are all different. Raises :class:`~agentrt.errors.BenchPeerError` when a request is not
        answered in full.
        """
        return asyncio.run(self._serve(arrivals))

    async def _describe(self) -> tuple[str, int]:
        """Return the model's name and its context length in tokens."""
        import httpx

        from agentrt.runtime.serving.http.address import why_unreachable

        try:
            async with self._client.connections() as connections:
                models = (await connections.get("/v1/models")).raise_for_status().json()
                model = models["data"][0]
                if self.name == "vllm":
                    return str(model["id"]), int(model["max_model_len"])
                properties = (await connections.get("/props")).raise_for_status().json()
                return str(model["id"]), int(properties["default_generation_settings"]["n_ctx"])
        except httpx.HTTPStatusError as error:
            path, status = error.request.url.path, error.response.status_code
            raise self._client.error(f"answers {path} with {status}") from error
        except httpx.HTTPError as error:
            raise self._client.error(f"cannot be reached: {why_unreachable(error)}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise self._client.error(f"does not describe itself as {self.name} does") from error

    async def _serve(self, arrivals: Sequence[Arrival]) -> Run:
        bodies = [self._body(arrival) for arrival in arrivals]
        async with self._client.connections() as connections:
            begun = time.perf_counter()
            served = await asyncio.gather(
                *(
                    self._one(connections, arrival, body, begun)
                    for arrival, body in zip(arrivals, bodies, strict=True)
                )
            )
            return Run(tuple(served), time.perf_counter() - begun)

    async def _one(
        self, connections: httpx.AsyncClient, arrival: Arrival, body: Mapping[str, Any], begun: float
    ) -> Served:
        await asyncio.sleep(begun + arrival.at_s - time.perf_counter())
        made = await self._client.stream(connections, self._prompts.path, body, begun + arrival.at_s)
        return Served(arrival, made.prompt_tokens, made.first_s, made.total_s)

    def _body(self, arrival: Arrival) -> dict[str, Any]:
        own: dict[PeerName, dict[str, Any]] = {
            "llama_cpp": {"cache_prompt": False},
            # The lower, the sooner.
            "vllm": {"priority": 0 if arrival.reactive else 1},
        }
        return {
            "model": self._model,
            **self._prompts.take(arrival.prompt_tokens),
            "max_tokens": arrival.answer_tokens,
            "ignore_eos": True,
            "temperature": 0,
            **own[self.name],
        }
