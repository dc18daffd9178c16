"""An agent's turns over HTTP, with a digest in the background and without, on each server in turn."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..common.bench_model import BenchModel
from ..common.repetitions import spread_cells, spread_columns
from ..common.report import Cell, Table
from .agent_conversation import ANSWER_TOKENS, CALL_TOKENS, conversation, tools
from .agent_servers import OURS, SLOTS, agent_servers
from .streaming_client import StreamedAnswer, StreamingClient
from .texts import ChatFields, count_tokens, load_tokenizer

if TYPE_CHECKING:
    import httpx

_DIGESTED: Final = 3
"""Texts of the digest that are with the server at once: with the agent's as many as llama.cpp has slots."""
_DIGESTED_TOKENS: Final = 256
_DIGEST_TOKENS: Final = 48
"""Of what is said about each text."""
_PATH: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One conversation on one server."""

    turns: tuple[StreamedAnswer, ...]

    @property
    def total_s(self) -> float:
        """Time of all turns. The tools take none."""
        return sum(turn.total_s for turn in self.turns)


@dataclass(frozen=True, slots=True)
class AgentRuns:
    """One repetition on one server."""

    beside_digest: AgentRun
    alone: AgentRun


def has_agent_turns(model: BenchModel) -> bool:
    """Whether the chat template of ``model`` takes tools, and a conversation fits in its context."""
    tokenizer = load_tokenizer(model)
    if "tools" not in tokenizer.chat_template:
        return False
    *_, last = conversation(0)
    prompt = tokenizer.apply_chat_template(list(last.messages), add_generation_prompt=True, tools=tools())
    return count_tokens(tokenizer, prompt) + last.answer_tokens <= model.context_length


def measure_agent_turns(
    model: BenchModel, repetitions: int, progress: Callable[[str], None]
) -> tuple[dict[str, float], list[Table]]:
    """Return the figures and the tables of conversations on the servers of ``model``.

    Raises:
        BenchPeerError: a server does not answer in full.
    """
    progress(f"{model.title}: starting the servers for an agent")
    with agent_servers(model) as urls:
        agents = {name: _Agent(StreamingClient(name, url), ChatFields(model)) for name, url in urls.items()}
        for agent in agents.values():
            agent.warm_up()
        found: dict[str, list[AgentRuns]] = {name: [] for name in agents}
        for repetition in range(repetitions):
            for name in list(agents)[:: 1 if repetition % 2 == 0 else -1]:
                progress(f"{name}: an agent's turns, {repetition + 1}")
                found[name].append(agents[name].run(repetition))
    return agent_figures(found), agent_tables(found)


class _Agent:
    """The agent and the digest as clients of one server. All servers get the same requests."""

    def __init__(self, client: StreamingClient, texts: ChatFields) -> None:
        self._client = client
        self._texts = texts
        self._tools = tools()

    def warm_up(self) -> None:
        """Have a text digested that is not measured."""
        asyncio.run(self._warm_up())

    def run(self, repetition: int) -> AgentRuns:
        return asyncio.run(self._run(repetition))

    async def _warm_up(self) -> None:
        async with self._client.connections() as connections:
            await self._digest_one(connections)

    async def _run(self, repetition: int) -> AgentRuns:
        async with self._client.connections() as connections:
            async with self._digesting(connections):
                beside = await self._converse(connections, 2 * repetition)
            return AgentRuns(beside, await self._converse(connections, 2 * repetition + 1))

    async def _converse(self, connections: httpx.AsyncClient, number: int) -> AgentRun:
        turns = []
        for turn in conversation(number):
            body = {"messages": turn.messages, "tools": self._tools, **_options(turn.answer_tokens)}
            turns.append(await self._client.stream(connections, _PATH, body, time.perf_counter()))
        return AgentRun(tuple(turns))

    @asynccontextmanager
    async def _digesting(self, connections: httpx.AsyncClient) -> AsyncIterator[None]:
        """Digest texts without a pause; the block begins when the first ones have been answered."""
        ended = asyncio.Event()

        async def digest(place: int, begun: asyncio.Event) -> None:
            tokens = _DIGEST_TOKENS * (place + 1) // _DIGESTED  # so that they do not end all at once
            while not ended.is_set():
                await self._digest_one(connections, tokens)
                tokens = _DIGEST_TOKENS
                begun.set()

        begun = [asyncio.Event() for _ in range(_DIGESTED)]
        try:
            async with asyncio.TaskGroup() as digests:
                for place, each in enumerate(begun):
                    digests.create_task(digest(place, each))
                for each in begun:
                    await each.wait()
                yield
                ended.set()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # of the server, whoever of its clients found out first

    async def _digest_one(
        self, connections: httpx.AsyncClient, tokens: int = _DIGEST_TOKENS
    ) -> StreamedAnswer:
        body = {**self._texts.take(_DIGESTED_TOKENS), **_options(tokens), "service_tier": "flex"}
        return await self._client.stream(connections, _PATH, body, time.perf_counter())


def _options(tokens: int) -> dict[str, Any]:
    return {"max_tokens": tokens, "ignore_eos": True, "temperature": 0}


def agent_figures(found: Mapping[str, Sequence[AgentRuns]]) -> dict[str, float]:
    """Return the figure: the median over the repetitions of our time over that of the fastest peer."""
    return {"agent_turn_ratio_vs_best_peer": statistics.median(_ratios(found, _beside_digest))}


def _beside_digest(runs: AgentRuns) -> AgentRun:
    return runs.beside_digest


def _alone(runs: AgentRuns) -> AgentRun:
    return runs.alone


def _ratios(found: Mapping[str, Sequence[AgentRuns]], which: Callable[[AgentRuns], AgentRun]) -> list[float]:
    peers = [runs for name, runs in found.items() if name != OURS]
    return [
        which(ours).total_s / min(which(runs[repetition]).total_s for runs in peers)
        for repetition, ours in enumerate(found[OURS])
    ]


def agent_tables(found: Mapping[str, Sequence[AgentRuns]]) -> list[Table]:
    """Return the times of conversations, and of their turns, with a digest in the background and without."""
    totals: list[tuple[Cell, ...]] = []
    turns: list[tuple[Cell, ...]] = []
    for background, which in (("digest", _beside_digest), ("none", _alone)):
        for name, repetitions in found.items():
            runs = [which(each) for each in repetitions]
            total = spread_cells([run.total_s for run in runs], 3)
            ratio = None if name != OURS else statistics.median(_ratios(found, which))
            totals.append((background, name, *total, ratio))
            for place in range(len(runs[0].turns)):
                made = [run.turns[place] for run in runs]
                turns.append(
                    (
                        *(background, name, place + 1, made[0].prompt_tokens),
                        *spread_cells([1e3 * each.first_s for each in made], 1),
                        *spread_cells([each.total_s for each in made], 3),
                    )
                )
    return [
        Table(
            title="an agent's conversation over HTTP",
            columns=("background", "engine", *spread_columns("total s"), "ratio to the fastest peer"),
            rows=tuple(totals),
        ),
        Table(
            title="turns of an agent's conversation",
            columns=(
                *("background", "engine", "turn", "prompt tokens"),
                *spread_columns("TTFT ms"),
                *spread_columns("seconds"),
            ),
            rows=tuple(turns),
        ),
    ]


AGENT_METHOD: Final = (
    "An agent's conversation: three model requests with ten tools in the prompt, streamed over HTTP, with "
    f"answers of {CALL_TOKENS} tokens and of {ANSWER_TOKENS} at the end. Behind each answer but the last "
    "follow a call that was written beforehand and its result, so that all servers compute the same "
    "messages. Each conversation begins with another system message: its first turn is computed, and later "
    f"ones find the turn before in the prefix cache. Meanwhile a digest has {_DIGESTED} texts of "
    f"{_DIGESTED_TOKENS} tokens answered at all times, {_DIGEST_TOKENS} tokens each, or there is no other "
    "work. Every server gets the same bodies, in which the digest's say service_tier flex, and has its own "
    "defaults: `agentrt serve` takes flex for proactive; llama.cpp's server (f16 cache, "
    f"{SLOTS} slots in one cache, cache_prompt) and openvino_genai's continuous batching (prefix cache on, "
    "256 tokens a step, behind a server of the bench that steps it) know no priorities. "
    "agent_turn_ratio_vs_best_peer is the median over the repetitions of our time of a conversation beside "
    "the digest over that of the fastest peer. The time to the first token is that of the first part that "
    "the client gets; agentrt sends a call in bare JSON when it is whole. "
)
