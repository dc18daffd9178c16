"""The figures and tables of the tool cache bench, from its repetitions."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentrt.perfmodel import EngineTimes, EngineTurn

from ..common.report import Table, spread_cells, spread_columns
from . import tasks
from .agents import Done
from .sides import (
    CLIENT_SIDE,
    ENGINE_SIDE,
    O2_ONLY,
    O3_ONLY,
    PREFIX_CACHED,
    SIDES,
    UNUSED,
    VANILLA,
    Side,
)
from .tasks import Task

Figures = Mapping[str, float]
_O2 = [(UNUSED, O2_ONLY), (O3_ONLY, ENGINE_SIDE)]
_O3 = [(UNUSED, O3_ONLY), (O2_ONLY, ENGINE_SIDE)]
"""Pairs of sides without and with the optimization."""


@dataclass(frozen=True, slots=True)
class Case:
    """A side at a probability of a right draft (SpecTools' alpha)."""

    side: Side
    alpha: float = 1.0


@dataclass(slots=True)
class Repetition:
    """What one repetition has measured: of each case, the results of the tasks, in their order."""

    tasks: Sequence[Task]
    done: dict[Case, list[Done]] = field(default_factory=dict)

    def of(self, side: Side, alpha: float = 1.0) -> list[Done]:
        """Return the results of a case; of a side that does not speculate, those at alpha 1."""
        return self.done[Case(side, alpha if side.speculates else 1.0)]

    def seconds(self, side: Side, alpha: float = 1.0) -> float:
        """Return the seconds of all tasks of a case."""
        return sum(one.elapsed_s for one in self.of(side, alpha))


@dataclass(frozen=True, slots=True)
class Prediction:
    """Eqs. 5 and 6 for one task, in seconds, from its own prefix-cached run.

    The time a token (delta) is taken from the same run, so that the machine's drift is in both. Reading is
    the same in both equations. ``round_trip_s`` is 2o.
    """

    task: Task
    cached: Done
    round_trip_s: float

    @property
    def reasons(self) -> bool:
        """Whether the model writes text before its call, at least two tokens: delta is measured on them."""
        return self.task.reasoning_tokens > 1 and self.cached.reasoned_s > self.cached.first_s

    @property
    def decode_s(self) -> float:
        """Seconds a token, while reasoning; only where the model reasons."""
        return (self.cached.reasoned_s - self.cached.first_s) / (self.task.reasoning_tokens - 1)

    @property
    def fits(self) -> bool:
        """Whether the tool is done while the model reasons, as Eq. 6 assumes: by T, g and delta R alone."""
        reasoning = self.task.reasoning_tokens
        return self.reasons and tasks.DRAFT_S + self.task.latency_s < reasoning * self.decode_s

    @property
    def saved_s(self) -> float:
        """Eq. 5 minus Eq. 6: what O1, O2 and O3 save together."""
        return self._saved(self.task.latency_s)

    @property
    def saved_by_engine_s(self) -> float:
        """What O2 and O3 save of that: as much as with a tool that takes no time."""
        return self._saved(0.0)

    def _saved(self, tool_s: float) -> float:
        turn = EngineTurn(
            reasoning_tokens=self.task.reasoning_tokens,
            call_tokens=max(1, self.cached.first_tokens - self.task.reasoning_tokens),
            result_tokens=max(0, self.cached.output_tokens),
            tool_s=tool_s,
        )
        prompt = max(1, self.cached.prompt_tokens)
        times = EngineTimes(self.round_trip_s / 2, 0.0, self.decode_s, prompt, [turn])
        return times.cached() - times.speculative(1.0)


def predictions(measured: Repetition, round_trip_s: float) -> list[Prediction]:
    """Return the prediction for each task."""
    cached = measured.of(PREFIX_CACHED)
    return [Prediction(task, done, round_trip_s) for task, done in zip(measured.tasks, cached, strict=True)]


def attainments(measured: Repetition, predicted: Sequence[Prediction]) -> dict[str, float]:
    """Return measured by predicted savings of the engine side with right drafts.

    They are sums over the tasks whose tool is done while the model reasons; whether the engine has answered
    the call does not matter: a saving that is predicted and does not come is a loss. What is compared begins
    with the last word before the call, since the same was done up to there.
    """
    fitting = [number for number, each in enumerate(predicted) if each.fits]
    if not fitting:
        return {}

    def seconds(done: Sequence[Done]) -> float:
        return sum(done[number].after_reasoning_s for number in fitting)

    engine = seconds(measured.of(ENGINE_SIDE))
    all_saved = sum(predicted[number].saved_s for number in fitting)
    engine_saved = sum(predicted[number].saved_by_engine_s for number in fitting)
    return {
        "eq6_attainment": (seconds(measured.of(PREFIX_CACHED)) - engine) / all_saved,
        "eq6_attainment_over_client_side": (seconds(measured.of(CLIENT_SIDE)) - engine) / engine_saved,
    }


def task_figures(short: Repetition, round_trip_s: float) -> dict[str, float]:
    """Return the figures of one repetition with short tools; ``round_trip_s`` is SpecTools' 2o."""
    predicted = predictions(short, round_trip_s)
    fitting = [number for number, each in enumerate(predicted) if each.fits]
    cached, engine = short.of(PREFIX_CACHED), short.of(ENGINE_SIDE)
    reasoning = [
        sum(one.reasoned_s for one, each in zip(done, predicted, strict=True) if each.reasons)
        for done in (cached, engine)
    ]
    cached_s = short.seconds(PREFIX_CACHED)
    extra = short.seconds(CLIENT_SIDE) - short.seconds(ENGINE_SIDE)
    return {
        **attainments(short, predicted),
        "extra_time_saved_pct_over_client_side": 100 * extra / short.seconds(VANILLA),
        "engine_alpha0_slowdown_pct": 100 * (short.seconds(ENGINE_SIDE, 0.0) / cached_s - 1),
        **({"reasoning_slowdown_pct": 100 * (reasoning[1] / reasoning[0] - 1)} if reasoning[0] else {}),
        **_milliseconds("o2_call_ms_saved", short, fitting, _O2, lambda done: done.call_s),
        **_milliseconds("o3_reentry_ms_saved", short, fitting, _O3, lambda done: done.reentry_s),
    }


def _milliseconds(
    name: str,
    measured: Repetition,
    numbers: Sequence[int],
    pairs: Sequence[tuple[Side, Side]],
    seconds: Callable[[Done], float],
) -> dict[str, float]:
    """Return the median of what the second side of each pair saves, over these tasks; nothing of none."""
    saved = [
        seconds(measured.of(without)[task]) - seconds(measured.of(with_it)[task])
        for without, with_it in pairs
        for task in numbers
    ]
    return {name: 1000 * statistics.median(saved)} if saved else {}


def medians(repetitions: Sequence[Figures]) -> dict[str, float]:
    """Return the median of each figure over the repetitions that have it."""
    return {name: statistics.median(values) for name, values in _by_name(repetitions).items()}


def spread_table(repetitions: Sequence[Figures]) -> Table:
    """Return the spread of the figures over the repetitions."""
    return Table(
        title="figures over the repetitions",
        columns=("figure", "median", "min", "max", "repetitions"),
        rows=tuple(
            (name, *spread_cells(values, 4), len(values)) for name, values in _by_name(repetitions).items()
        ),
    )


def _by_name(repetitions: Sequence[Figures]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for figures in repetitions for name in figures)
    return {name: [figures[name] for figures in repetitions if name in figures] for name in names}


def tokens_identical(repetitions: Sequence[Repetition]) -> bool:
    """Whether the model has said the same on all sides, in every task."""
    return all(
        len({done.transcript for done in of_a_task}) == 1
        for measured in repetitions
        for of_a_task in zip(*measured.done.values(), strict=True)
    )


def sides_table(repetitions: Mapping[str, Sequence[Repetition]]) -> Table:
    """Return the time a task of each side with right drafts, by the latency of the tools."""
    return Table(
        title="time a task (Figure 8)",
        columns=(
            *("tools", "side", *spread_columns("seconds a task")),
            *spread_columns("time saved, % of vanilla"),
            "answered in the engine",
        ),
        rows=tuple(
            (
                tools,
                side.name,
                *_seconds_a_task(each, side),
                *_saved(each, side),
                statistics.fmean(one.in_engine for repetition in each for one in repetition.of(side)),
            )
            for tools, each in repetitions.items()
            for side in SIDES
        ),
    )


def _seconds_a_task(repetitions: Sequence[Repetition], side: Side) -> tuple[float, float, float]:
    return spread_cells([statistics.fmean(one.elapsed_s for one in each.of(side)) for each in repetitions], 4)


def _saved(repetitions: Sequence[Repetition], side: Side) -> tuple[float, float, float]:
    return spread_cells([100 * (1 - each.seconds(side) / each.seconds(VANILLA)) for each in repetitions], 2)
