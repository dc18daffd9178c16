"""What agents compute again after their tools have run, where memory is short: by expected return, and LRU.

Recorded conversations run side by side in virtual time. Their blocks are those of the runtime's own block
manager; no model computes them, as only the numbers of tokens matter.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agentrt.priority import Priority
from agentrt.runtime.kv.block_hashes import BlockHashes
from agentrt.runtime.kv.block_pool import BlockPool
from agentrt.runtime.kv.eviction_policy import EvictionPolicy, ExpectedReturn
from agentrt.runtime.kv.swap.chunks import NO_SWAPPER
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.scheduler.block_manager import BlockManager
from agentrt.runtime.scheduler.chunk_loads import ChunkLoads, SwapOuts
from agentrt.runtime.scheduler.sequence import Sequence

from ..common.estimates import Estimate, bootstrap
from ..common.report import Table
from ..common.workloads import Conversation, traced

SHARES: Final = (0.25, 0.5, 0.75)
"""Of the peak of the working set: what memory there is."""
BLOCK_TOKENS: Final = 32
_CHARACTERS_A_TOKEN: Final = 4
_AGENTS_A_SECOND: Final = 1.0
_USER_S: Final = 30.0
"""Mean seconds until a user goes on (exponential)."""
_USUAL_TOOL_S: Final = (math.log(0.15), 1.75)
"""Of the logarithms of the seconds that tools usually take, mean and deviation: 86 % take up to a second."""
_CALL_DEVIATION: Final = 0.3
"""Deviation of the logarithm of the seconds of one call from what its tool usually takes."""
_HOLD_S: Final = 60.0
_NOBODY: Final = float("inf")
"""A level whose blocks are kept from nobody."""
_WORKLOADS: Final = ("tau", "apibank", "swe_agent", "toolbench")


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One request of an agent, and what comes after its answer."""

    prompt_tokens: int
    answer_tokens: int
    calls: frozenset[str]
    pause_s: float | None
    """Until its next request; None if there is none."""

    @property
    def tokens(self) -> int:
        """Those of prompt and answer."""
        return self.prompt_tokens + self.answer_tokens

    @property
    def blocks(self) -> int:
        """The complete blocks of prompt and answer."""
        return self.tokens // BLOCK_TOKENS


@dataclass(eq=False)
class Agent:
    """A conversation that begins at a time, and the hashes of its blocks."""

    app: str
    begins: float
    turns: list[AgentTurn]
    tokens: list[int]
    """All that it ever computes."""
    hashes: BlockHashes

    @property
    def key(self) -> bytes:
        """What tells it from others."""
        return str(self.tokens[-1]).encode()


@dataclass(frozen=True)
class Agents:
    """Those of one replay."""

    agents: list[Agent]
    usual_s: Mapping[str, float]
    """What each tool usually takes."""

    @property
    def peak_blocks(self) -> int:
        """The most blocks of conversations whose tools run at one time."""
        changes: list[tuple[float, int]] = []
        for agent in self.agents:
            now = agent.begins
            for turn in agent.turns:
                pause = turn.pause_s or 0.0
                if turn.calls:
                    changes += [(now, turn.blocks), (now + pause, -turn.blocks)]
                now += pause
        return max(itertools.accumulate(change for _, change in sorted(changes)))

    @property
    def largest(self) -> int:
        """Blocks of the longest conversation."""
        return max(turn.blocks for agent in self.agents for turn in agent.turns) + 1


Hints = Callable[[Agent], Mapping[str, float]]


@dataclass(frozen=True)
class Side:
    """A way to decide which blocks give way."""

    name: str
    expects: bool = True
    knows_future: bool = False
    """Whether the next use of every conversation is known, also of those that wait for their users."""
    hints: Callable[[Agents], Hints] = field(default=lambda agents: lambda agent: {})


def _shuffled(agents: Agents) -> Hints:
    tools = sorted(agents.usual_s)
    seconds = [agents.usual_s[tool] for tool in tools]
    random.Random(0).shuffle(seconds)
    wrong = dict(zip(tools, seconds, strict=True))
    return lambda agent: wrong


def _hostile(agents: Agents) -> Hints:
    """The app with the most agents claims that all of its tools return at once."""
    at_once = dict.fromkeys(agents.usual_s, 0.001)
    return lambda agent: at_once if agent.app == hostile_app(agents) else agents.usual_s


def hostile_app(agents: Agents) -> str:
    """Return the app with the most agents."""
    return Counter(agent.app for agent in agents.agents).most_common(1)[0][0]


LRU: Final = Side("LRU", expects=False)
TOLD: Final = Side("told", hints=lambda agents: lambda agent: agents.usual_s)
LEARNED: Final = Side("learned")
WRONG: Final = Side("shuffled", hints=_shuffled)
HOSTILE: Final = Side("one app claims 1 ms", hints=_hostile)
OPTIMUM: Final = Side("next use known (Belady)", knows_future=True)
SIDES: Final = (TOLD, LEARNED, WRONG, HOSTILE, OPTIMUM)


class _Trusting(EvictionPolicy):
    """Believes every expectation."""

    def _balance(self, app: str) -> float:
        return float(self._capacity)


def draw_agents(conversations: Mapping[str, list[Conversation]], count: int, seed: int) -> Agents:
    """Return ``count`` agents that begin one after the other (Poisson), with conversations in turn."""
    rng = random.Random(seed)
    usual: dict[str, float] = {}
    pool = [(app, each) for app, found in conversations.items() for each in found if len(each.turns) > 1]
    rng.shuffle(pool)
    agents, begins = list[Agent](), 0.0
    for number, (app, conversation) in enumerate(itertools.islice(itertools.cycle(pool), count)):
        begins += rng.expovariate(_AGENTS_A_SECOND)
        common = len(json.dumps(conversation.tools)) // _CHARACTERS_A_TOKEN
        turns = list(_turns_of(conversation, common, usual, rng))
        first = (number + 1) << 20
        own = range(first, first + turns[-1].tokens - common)
        hashes = BlockHashes(app.encode(), BLOCK_TOKENS)
        agents.append(Agent(app, begins, turns, [*range(common), *own], hashes))
    return Agents(agents, usual)


def _turns_of(
    conversation: Conversation, common: int, usual: dict[str, float], rng: random.Random
) -> Iterator[AgentTurn]:
    sizes = [1 + len(json.dumps(message)) // _CHARACTERS_A_TOKEN for message in conversation.messages]
    behind = [turn.history for turn in conversation.turns[1:]]
    for turn, following in itertools.zip_longest(conversation.turns, behind):
        answer = sizes[turn.history] if turn.history < len(sizes) else 1
        pause: float | None = None
        calls = frozenset(call.name for call in turn.calls)
        if following is not None:
            pause = rng.expovariate(1 / _USER_S)
            if calls:
                for tool in sorted(calls - usual.keys()):
                    usual[tool] = rng.lognormvariate(*_USUAL_TOOL_S)
                pause = max(usual[tool] * rng.lognormvariate(0, _CALL_DEVIATION) for tool in sorted(calls))
        yield AgentTurn(common + sum(sizes[: turn.history]), answer, calls, pause)


@dataclass
class Replay:
    """One replay on a virtual clock: what each app computes again.

    Requests are answered at once, so that memory is needed for conversations that wait.
    """

    agents: Agents
    side: Side
    blocks: int
    after_tools: Counter[str] = field(default_factory=Counter)
    """Tokens of a known prefix that each app has computed again after its tools had run."""
    after_all: Counter[str] = field(default_factory=Counter)
    """The same after any pause."""

    def __post_init__(self) -> None:
        """Replay all agents."""
        pool = BlockPool(self.blocks)
        if self.side.knows_future:
            pool.eviction = _Trusting(self.blocks)
        self._manager = BlockManager(
            pool=pool,
            states=None,
            block_tokens=BLOCK_TOKENS,
            share=True,
            quantised_keys=False,
            share_sampled=True,
            loads=ChunkLoads(pool, BLOCK_TOKENS, NO_SWAPPER, lambda tokens: LinearCost(0.0, 0.0)),
            swap_outs=SwapOuts(pool, BLOCK_TOKENS, NO_SWAPPER),
            stores_chunks=False,
        )
        hints, count = self.side.hints(self.agents), itertools.count()
        due = [(agent.begins, next(count), agent, 0) for agent in self.agents.agents]
        heapq.heapify(due)
        while due:
            now, _, agent, number = heapq.heappop(due)
            self._manager.expire(now)
            self._answer(agent, number, hints(agent), now)
            pause_s = agent.turns[number].pause_s
            if pause_s is not None:
                heapq.heappush(due, (now + pause_s, next(count), agent, number + 1))

    def _answer(self, agent: Agent, number: int, told: Mapping[str, float], now: float) -> None:
        """Answer one request, and expect the next one as the side does."""
        manager, turn = self._manager, agent.turns[number]
        tokens = agent.tokens[: turn.prompt_tokens]
        sequence = Sequence(
            number, Priority.REACTIVE, tokens, agent.hashes, now, app=agent.app, tool_seconds=told
        )
        if self.side.expects:
            manager.note_arrival(sequence, _HOLD_S)
        manager.attach_cached_prefix(sequence)
        manager.allocate(sequence, manager.blocks_for(turn.tokens) - len(sequence.blocks))
        manager.end_return(sequence)
        manager.pool.eviction.end(agent.key)
        if number:
            earlier = agent.turns[number - 1]
            again = max(0, earlier.blocks * BLOCK_TOKENS - sequence.computed_tokens)
            self.after_all[agent.app] += again
            self.after_tools[agent.app] += again * bool(earlier.calls)
        before = sequence.computed_tokens
        sequence.tokens += agent.tokens[turn.prompt_tokens : turn.tokens]
        sequence.computed_tokens = len(sequence.tokens)
        manager.cache_full_blocks(sequence, before)
        manager.release(sequence)
        if self.side.knows_future:
            self._expect(agent, turn, now)
        elif self.side.expects and turn.calls:
            manager.expect_return(sequence, turn.calls, now, _HOLD_S)

    def _expect(self, agent: Agent, turn: AgentTurn, now: float) -> None:
        if turn.pause_s is None:
            return
        at = now + turn.pause_s
        expected = ExpectedReturn(
            key=agent.key,
            hashes=agent.hashes.compute(agent.tokens, turn.blocks),
            app=agent.app,
            context_id="",
            at=at,
            late=at + 1,
            until=at + 1,
            level=_NOBODY,
        )
        self._manager.pool.eviction.expect(expected)


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What one side and LRU have computed again, by seed: after tools, after any pause, and of other apps
    than the hostile one after tools."""

    share: float
    side: str
    ours: list[tuple[int, int, int]]
    lru: list[tuple[int, int, int]]

    def ratio(self, kind: int) -> Estimate | None:
        """Return ours by LRU's; None where LRU computes nothing again."""
        pairs = [(ours[kind], lru[kind]) for ours, lru in zip(self.ours, self.lru, strict=True)]
        if not all(lru for _, lru in pairs):
            return None
        return bootstrap(pairs, lambda drawn: sum(ours for ours, _ in drawn) / sum(lru for _, lru in drawn))


def measure_returns(
    workloads: Path, agents: int, seeds: int, progress: Callable[[str], None]
) -> list[Recomputed]:
    """Replay the conversations of ``workloads`` that have results of tools on each side.

    Raises:
        WorkloadError: a workload is missing or damaged.
    """
    found = {name: each for name, each in traced(workloads).items() if name in _WORKLOADS}
    drawn = [draw_agents(found, agents, seed) for seed in range(seeds)]
    recomputed: list[Recomputed] = []
    for share in SHARES:
        progress(f"returns from tools with {share:.0%} of the memory")
        sizes = [max(each.largest, round(share * each.peak_blocks)) for each in drawn]
        by_side = {
            side.name: [_counts(Replay(each, side, size)) for each, size in zip(drawn, sizes, strict=True)]
            for side in (LRU, *SIDES)
        }
        recomputed += [Recomputed(share, side.name, by_side[side.name], by_side[LRU.name]) for side in SIDES]
    return recomputed


def _counts(replay: Replay) -> tuple[int, int, int]:
    tools, hostile = replay.after_tools, hostile_app(replay.agents)
    return tools.total(), replay.after_all.total(), tools.total() - tools[hostile]


def return_figures(recomputed: list[Recomputed]) -> dict[str, Estimate]:
    """Return the highest ratio of each side, and those with seconds told by share of the memory."""
    figures: dict[str, Estimate] = {}
    for name, side, kind in (
        ("", TOLD, 0),
        ("_learned", LEARNED, 0),
        ("_shuffled_hints", WRONG, 0),
        ("_beside_hostile_app", HOSTILE, 2),
    ):
        ratios = {each.share: each.ratio(kind) for each in recomputed if each.side == side.name}
        known = [ratio for ratio in ratios.values() if ratio is not None]
        if known:
            figures[f"kv_recomputed_ratio_vs_lru{name}"] = max(known, key=lambda each: each.value)
        for share, ratio in ratios.items() if side is TOLD else ():
            if ratio is not None:
                figures[f"kv_recomputed_ratio_vs_lru_at_{share:.0%}".replace("%", "pct")] = ratio
    return figures


def returns_table(recomputed: list[Recomputed]) -> Table:
    """Return all ratios, with what LRU computes again."""
    return Table(
        title="tokens computed again after tools, against LRU",
        columns=("memory", "expected", "ratio", "after any pause", "other apps", "LRU tokens"),
        rows=tuple(
            (
                f"{each.share:.0%}",
                each.side,
                *(each.ratio(kind) for kind in range(3)),
                sum(tools for tools, _, _ in each.lru),
            )
            for each in recomputed
        ),
    )
