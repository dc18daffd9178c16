"""Agents whose model and tools take set times, plain or speculative, one or many at once."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentrt.calls import ToolCall, canonical_key
from agentrt.concurrency.clock import monotonic
from agentrt.config import SpeculationConfig
from agentrt.drafts import DraftCost, DraftRequest
from agentrt.reports.report import SpeculationReport
from agentrt.tools.speculable_tool import Invocation, SpeculableOptions, SpeculableTool
from agentrt.turns.session import SpeculationSession

from .agent_tasks import Task, tools_of

Message = Mapping[str, Any]
_WORDS = "I look this up for you, one thing after the other, until there is all that you have asked for."
_TOKENS = 80  # of an answer, as they count for throughput


SAME_INFORMATION: Final = "agentrt, same information"
"""The side that drafts from the stream, as the peers start calls."""
SIMULATED_DRAFTS: Final = "agentrt, simulated drafts"
"""The side whose predictor knows the tasks besides."""
RIGHT: Final = 0.8
"""The share of turns that the simulated drafts have right."""
CALLS_SHARE: Final = 0.6
"""The share of an answer's time that its calls take together; they come last."""
Sides = Mapping[str, Callable[[str], Awaitable[Any]]]
"""By the name of a side, what does the task of a request on it and returns a transcript."""


@dataclass(frozen=True, slots=True)
class Times:
    """Mean seconds of a turn of the model (G), of a draft (g) and of a tool (T).

    G and T are drawn from normal distributions whose relative standard deviation is ``spread``. ``seed`` is
    that of the draws, and of which drafts are right.
    """

    generation: float
    draft: float
    tool: float
    spread: float = 0.0
    seed: int = 0

    def random(self, place: str) -> random.Random:
        """Return the source of random numbers of one place in a task."""
        return random.Random(f"{self.seed} {place}")

    def drawn(self, mean: float, place: str) -> float:
        """Draw the seconds of one place in a task, at least 0."""
        return max(0.0, self.random(place).gauss(mean, self.spread * mean))


class TimedWorld:
    """The model and the tools of some tasks; outputs and times depend on task, step and seed only."""

    def __init__(self, tasks: Sequence[Task], times: Times, calls_a_turn: int = 1) -> None:
        """``times`` are those of the model, the predictor and the tools."""
        self.times = times
        self.generations: list[float] = []
        self.runs: list[float] = []
        self._calls_a_turn = calls_a_turn
        self._tasks = {task.request: task for task in tasks}
        self.tools: list[Any] = [TimedTool(name, self.run) for name in tools_of(tasks)]

    def calls(self, request: str, turn: int) -> Sequence[ToolCall]:
        """Return the calls that the model makes in a turn of a task; none if the task is done."""
        first = turn * self._calls_a_turn
        return self._tasks[request].calls[first : first + self._calls_a_turn]

    async def answer(self, messages: Sequence[Message], tools: object) -> Message:
        """Return the model's answer to this history, after its generation time."""
        began = monotonic()
        request, turn = place(messages)
        await asyncio.sleep(self.times.drawn(self.times.generation, f"{request} {turn}"))
        calls = self.calls(request, turn)
        if not calls:
            return {"role": "assistant", "content": _WORDS}
        self.generations.append(monotonic() - began)
        made = []
        for index, call in enumerate(calls):
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            call_id = f"call_{self._tasks[request].id}_{turn}_{index}"
            made.append({"id": call_id, "type": "function", "function": function})
        return {"role": "assistant", "content": None, "tool_calls": made}

    async def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        began = monotonic()
        key = canonical_key(name, arguments)
        await asyncio.sleep(self.times.drawn(self.times.tool, key))
        self.runs.append(monotonic() - began)
        return f"{name} found {len(key)} of {len(arguments)}"


def place(messages: Sequence[Message]) -> tuple[str, int]:
    """Return the request of a history, and the number of answers that the model has given."""
    return messages[0]["content"], sum(message["role"] == "assistant" for message in messages)


class TimedTool:
    """A speculable tool that accepts any arguments; ``run(name, arguments)`` does its work."""

    def __init__(self, name: str, run: Callable[[str, Any], Awaitable[str]]) -> None:
        """``run`` is called for speculative and for real runs alike."""
        self.name = name

        async def call(arguments: Mapping[str, Any]) -> str:
            said: str = await run(name, arguments)
            return said

        self.__speculable__ = SpeculableTool(
            name,
            bind=lambda arguments: Invocation(kwargs={"arguments": dict(arguments)}),
            call=None,
            acall=call,
            options=SpeculableOptions(canonical=lambda arguments: arguments, max_concurrency=512),
        )


def is_right(times: Times, request: str, turn: int, sample: int, chance: float) -> bool:
    """Whether a simulated sample drafts a turn of a task right; its chance is ``chance``."""
    return times.random(f"{request} {turn} {sample}").random() < chance


class SimulatedPredictor:
    """Predictor without a model: it knows the tasks, and each sample is right with a set chance."""

    def __init__(self, world: TimedWorld, chance: float, *, looks_ahead: bool = False) -> None:
        """``chance`` is the probability that one sample is right; samples are independent."""
        self.name = f"simulated, right {chance:.0%} a sample"
        self.shares_cores = False
        self.looks_ahead = looks_ahead
        self._world = world
        self._chance = chance

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the drafts of a turn's calls, one of each for each sample."""
        await asyncio.sleep(self._world.times.draft)
        read, written = len(json.dumps(list(request.messages))) // 4, 30
        request.spend(DraftCost(read * request.samples, written * request.samples))
        asked, turn = place(request.messages)
        for sample in range(request.samples):
            right = is_right(self._world.times, asked, turn, sample, self._chance)
            for call in self._world.calls(asked, turn):
                yield call if right else ToolCall(call.name, {**call.arguments, "draft": sample})


@dataclass(frozen=True, slots=True)
class Fleet:
    """Results of agents that ran at the same time; ``seconds`` and ``turns`` are of each agent."""

    seconds: tuple[float, ...]
    turns: tuple[int, ...]
    transcripts: tuple[Any, ...]
    generation_s: float
    tool_s: float
    reports: tuple[SpeculationReport, ...] = ()

    @property
    def tokens_per_second(self) -> float:
        """Mean over the agents of the tokens per second of each (SpecTools §5)."""
        return statistics.fmean(
            _TOKENS * turns / seconds for turns, seconds in zip(self.turns, self.seconds, strict=True)
        )

    @property
    def claim_rate(self) -> float:
        """Claimed calls as a share of all calls."""
        totals = [report.total for report in self.reports]
        calls = sum(total.claims + total.misses for total in totals)
        return sum(total.claims for total in totals) / calls if calls else 0.0

    @property
    def draft_tokens(self) -> tuple[int, int]:
        each = [one for report in self.reports for one in report.predictors.values()]
        return sum(one.input_tokens for one in each), sum(one.output_tokens for one in each)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same agents with the same seed, plain and speculative."""

    plain: Fleet
    fast: Fleet

    @property
    def saved_pct(self) -> float:
        """Mean over the agents of the percentage of its time that each saved (SpecTools §5)."""
        seconds = zip(self.plain.seconds, self.fast.seconds, strict=True)
        return statistics.fmean(100 * (1 - fast / plain) for plain, fast in seconds)

    @property
    def speedup(self) -> float:
        """Plain by speculative time of all agents."""
        return sum(self.plain.seconds) / sum(self.fast.seconds)

    @property
    def throughput_ratio(self) -> float:
        return self.fast.tokens_per_second / self.plain.tokens_per_second

    @property
    def more_tokens_per_second(self) -> float:
        return self.fast.tokens_per_second - self.plain.tokens_per_second


@dataclass(frozen=True, slots=True)
class Setup:
    """Speculation settings of a fleet."""

    chance: float = 1.0
    samples: int = 1
    looks_ahead: bool = False
    config: SpeculationConfig | None = None


def hands(tasks: Sequence[Task], agents: int, each: int) -> list[list[Task]]:
    """Deal ``each`` tasks to every agent; agents may share a task, but none gets one twice."""
    assert each <= len(tasks)
    return [[tasks[(agent * each + place) % len(tasks)] for place in range(each)] for agent in range(agents)]


async def run_fleet(dealt: Sequence[Sequence[Task]], times: Times, setup: Setup | None) -> Fleet:
    """Run one agent for each hand of tasks, all at the same time; ``setup`` None runs them plain."""
    world = TimedWorld([task for hand in dealt for task in hand], times)
    done = await asyncio.gather(*(_do_all(world, hand, setup) for hand in dealt))
    return Fleet(
        seconds=tuple(seconds for seconds, _, _ in done),
        turns=tuple(sum(len(task.calls) + 1 for task in hand) for hand in dealt),
        transcripts=tuple(said for _, said, _ in done),
        generation_s=statistics.fmean(world.generations),
        tool_s=statistics.fmean(world.runs),
        reports=tuple(report for _, _, report in done if report is not None),
    )


async def _do_all(
    world: TimedWorld, tasks: Sequence[Task], setup: Setup | None
) -> tuple[float, Any, SpeculationReport | None]:
    began = monotonic()
    if setup is None:
        said = [await _do(world, task, None) for task in tasks]
        return monotonic() - began, said, None
    predictor = SimulatedPredictor(world, setup.chance, looks_ahead=setup.looks_ahead)
    async with SpeculationSession(
        world.tools, [predictor], samples=setup.samples, config=setup.config
    ) as session:
        said = [await _do(world, task, session) for task in tasks]
        return monotonic() - began, said, session.report()


async def _do(world: TimedWorld, task: Task, session: SpeculationSession | None) -> list[Any]:
    """Run one task; return its transcript without ids."""
    messages: list[Message] = [{"role": "user", "content": task.request}]
    while True:
        answer = await (
            world.answer(messages, []) if session is None else session.ask(world.answer, messages, [])
        )
        messages.append(answer)
        if not answer.get("tool_calls"):
            break
        for asked in answer["tool_calls"]:
            arguments = json.loads(asked["function"]["arguments"])
            call = ToolCall(asked["function"]["name"], arguments, asked["id"])
            result = await (world.run(call.name, arguments) if session is None else session.acall(call))
            messages.append({"role": "tool", "tool_call_id": asked["id"], "content": result})
    return [
        (message["role"], message["content"], [each["function"] for each in message.get("tool_calls") or ()])
        for message in messages
    ]
