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
from collections import Counter, deque
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
_TOKEN_S: Final = 0.02
"""Seconds for a token of an answer."""
_USER_S: Final = 30.0
"""Mean seconds until a user goes on (exponential)."""
_USUAL_TOOL_S: Final = (math.log(0.15), 1.75)
"""Of the logarithms of the seconds that tools usually take, mean and deviation: 86 % take up to a second."""
_CALL_DEVIATION: Final = 0.3
"""Deviation of the logarithm of the seconds of one call from what its tool usually takes."""
_HOLD_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One request of an agent, and what comes after its answer."""

    prompt_tokens: int
    answer_tokens: int
    calls: frozenset[str]
    pause_s: float | None
    """Until its next request; None if there is none."""


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
        """The most blocks of conversations that are being answered or whose tools run, at any time."""
        changes: list[tuple[float, int]] = []
        for agent in self.agents:
            now = agent.begins
            for turn in agent.turns:
                blocks = (turn.prompt_tokens + turn.answer_tokens) // BLOCK_TOKENS
                changes.append((now, blocks))
                now += turn.answer_tokens * _TOKEN_S + (turn.pause_s or 0.0) * bool(turn.calls)
                changes.append((now, -blocks))
                now += (turn.pause_s or 0.0) * (not turn.calls)
        return max(itertools.accumulate(change for _, change in sorted(changes)))


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


def draw_agents(conversations: Mapping[str, list[Conversation]], count: int, rate: float, seed: int) -> Agents:
    """Return ``count`` agents that begin at ``rate`` a second (Poisson), with conversations in turn."""
    rng = random.Random(seed)
    usual: dict[str, float] = {}
    pool = [(app, each) for app, found in conversations.items() for each in found if len(each.turns) > 1]
    rng.shuffle(pool)
    agents, begins = list[Agent](), 0.0
    for number, (app, conversation) in enumerate(itertools.islice(itertools.cycle(pool), count)):
        begins += rng.expovariate(rate)
        common = len(json.dumps(conversation.tools)) // _CHARACTERS_A_TOKEN
        turns = list(_turns_of(conversation, common, usual, rng))
        last = turns[-1]
        own = range((number + 1) << 20, ((number + 1) << 20) + last.prompt_tokens + last.answer_tokens - common)
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
    """One replay on a virtual clock: what each app computes again after tools, and in all."""

    agents: Agents
    side: Side
    blocks: int
    after_tools: Counter[str] = field(default_factory=Counter)
    """Tokens of a known prefix that each app has computed again after its tools had run."""
    after_all: Counter[str] = field(default_factory=Counter)

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
        self._hints = self.side.hints(self.agents)
        self._count = itertools.count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._waiting: deque[Callable[[float], bool]] = deque()
        for agent in self.agents.agents:
            self._at(agent.begins, lambda now, agent=agent: self._arrive(agent, 0, now))
        while self._events:
            now, _, happen = heapq.heappop(self._events)
            self._manager.expire(now)
            happen(now)

    def _at(self, when: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._count), happen))

    def _arrive(self, agent: Agent, number: int, now: float) -> None:
        turn = agent.turns[number]
        sequence = Sequence(
            next(self._count),
            Priority.REACTIVE,
            agent.tokens[: turn.prompt_tokens],
            agent.hashes,
            now,
            app=agent.app,
            tool_seconds=self._hints(agent),
        )
        if self.side.expects:
            self._manager.note_arrival(sequence, _HOLD_S)
        self._waiting.append(lambda now: self._begin(agent, number, sequence, now))
        self._begin_waiting(now)

    def _begin_waiting(self, now: float) -> None:
        while self._waiting and self._waiting[0](now):
            self._waiting.popleft()

    def _begin(self, agent: Agent, number: int, sequence: Sequence, now: float) -> bool:
        """Give a sequence its blocks; return whether there were enough."""
        manager, turn = self._manager, agent.turns[number]
        manager.attach_cached_prefix(sequence)
        needed = manager.blocks_for(turn.prompt_tokens + turn.answer_tokens) - len(sequence.blocks)
        if not manager.room_for(needed, sequence.level, admitting=True):
            manager.release(sequence)
            return False
        manager.allocate(sequence, needed)
        manager.end_return(sequence)
        manager.pool.eviction.end(agent.key)
        if number:
            earlier = agent.turns[number - 1]
            known = (earlier.prompt_tokens + earlier.answer_tokens) // BLOCK_TOKENS * BLOCK_TOKENS
            again = max(0, known - sequence.computed_tokens)
            self.after_all[agent.app] += again
            self.after_tools[agent.app] += again * bool(earlier.calls)
        before, sequence.computed_tokens = sequence.computed_tokens, turn.prompt_tokens
        manager.cache_full_blocks(sequence, before)
        self._at(now + turn.answer_tokens * _TOKEN_S, lambda now: self._end(agent, number, sequence, now))
        return True

    def _end(self, agent: Agent, number: int, sequence: Sequence, now: float) -> None:
        manager, turn = self._manager, agent.turns[number]
        sequence.tokens += agent.tokens[turn.prompt_tokens : turn.prompt_tokens + turn.answer_tokens]
        before, sequence.computed_tokens = sequence.computed_tokens, len(sequence.tokens)
        manager.cache_full_blocks(sequence, before)
        manager.release(sequence)
        if turn.pause_s is not None:
            if self.side.knows_future:
                self._expect(agent, turn, now)
            elif self.side.expects and turn.calls:
                manager.expect_return(sequence, turn.calls, now, _HOLD_S)
            self._at(now + turn.pause_s, lambda now: self._arrive(agent, number + 1, now))
        elif self.side.expects and turn.calls and not self.side.knows_future:
            manager.expect_return(sequence, turn.calls, now, _HOLD_S)  # it never comes
        self._begin_waiting(now)

    def _expect(self, agent: Agent, turn: AgentTurn, now: float) -> None:
        assert turn.pause_s is not None
        at = now + turn.pause_s
        known = turn.prompt_tokens + turn.answer_tokens
        self._manager.pool.eviction.expect(
            ExpectedReturn(
                key=agent.key,
                hashes=agent.hashes.compute(agent.tokens, known // BLOCK_TOKENS),
                app=agent.app,
                context_id="",
                at=at,
                late=at + 1e9,
                until=at + 1e9,
                level=float("inf"),
            )
        )
