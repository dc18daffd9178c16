"""The figures and tables of the tool cache bench, from its tasks, each of which all sides have done."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agentrt.perfmodel import EngineTimes, EngineTurn

from ..common.estimates import Estimate, bootstrap, mean, median, share
from ..common.report import Table
from . import tasks
from .agents import Done
from .sides import (
    CALLS_DRAFTED,
    CLIENT_SIDE,
    ENGINE_SIDE,
    O2_ONLY,
    O3_ONLY,
    PREFIX_CACHED,
    SIDES,
    VANILLA,
    Side,
)
from .tasks import Task

_O2 = [(CLIENT_SIDE, O2_ONLY), (O3_ONLY, ENGINE_SIDE)]
_O3 = [(CLIENT_SIDE, O3_ONLY), (O2_ONLY, ENGINE_SIDE)]
"""Pairs of sides without and with the optimization."""

_PHASES: Final[Mapping[str, Callable[[Done], float]]] = {
    "to the first word": lambda done: done.first_s,
    "reasoning": lambda done: done.reasoned_s - done.first_s,
    "the call (O2)": lambda done: done.call_s,
    "from the call's end to its result at the agent (O3)": lambda done: done.handover_s,
    "from there to the next word (O3)": lambda done: done.reentry_s,
    "the rest of the answer": lambda done: done.elapsed_s - (done.resumed_s or done.elapsed_s),
}
"""The parts of a task's time, one after the other."""

_MORE_REASONING: Final = (100, 200, 400, 800, 1600)
"""Tokens before a call for which the share saved is computed."""


@dataclass(frozen=True, slots=True)
class Case:
    """A side at a probability of a right draft (SpecTools' alpha)."""

    side: Side
    alpha: float = 1.0


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


@dataclass(frozen=True, slots=True)
class Compared:
    """One task, done in all cases one after the other; ``round_trip_s`` is SpecTools' 2o at that time."""

    task: Task
    of_cases: Mapping[Case, Done]
    round_trip_s: float

    def done(self, side: Side, alpha: float = 1.0) -> Done:
        """Return the result of a case; of a side that does not speculate, that at alpha 1."""
        return self.of_cases[Case(side, alpha if side.speculates else 1.0)]

    def share_saved(self, side: Side, faster: Side) -> float:
        """Return what one side saves of another's time, in percent of vanilla's."""
        return 100 * (self.done(side).elapsed_s - self.done(faster).elapsed_s) / self.done(VANILLA).elapsed_s

    @property
    def predicted(self) -> Prediction:
        """What Eqs. 5 and 6 say of it."""
        return Prediction(self.task, self.done(PREFIX_CACHED), self.round_trip_s)


def attainments(pairs: Sequence[Compared]) -> dict[str, Estimate]:
    """Return measured by predicted savings of the engine side with right drafts.

    They are sums over the tasks whose tool is done while the model reasons; whether the engine has answered
    the call does not matter: a saving that is predicted and does not come is a loss. What is compared begins
    with the last word before the call, since the same was done up to there.
    """
    fitting = [pair for pair in pairs if pair.predicted.fits]
    if not fitting:
        return {}

    def attained(side: Side, saved_s: Callable[[Prediction], float]) -> Estimate:
        samples = [
            (
                pair.done(side).after_reasoning_s - pair.done(ENGINE_SIDE).after_reasoning_s,
                saved_s(pair.predicted),
            )
            for pair in fitting
        ]
        return bootstrap(samples, lambda drawn: sum(a for a, _ in drawn) / sum(b for _, b in drawn))

    return {
        "eq6_attainment": attained(PREFIX_CACHED, lambda each: each.saved_s),
        "eq6_attainment_over_client_side": attained(CLIENT_SIDE, lambda each: each.saved_by_engine_s),
    }


def task_figures(short: Sequence[Compared]) -> dict[str, Estimate]:
    """Return the figures of the tasks with short tools; intervals are over the tasks."""
    fitting = [pair for pair in short if pair.predicted.fits]
    reasoning = [pair for pair in short if pair.predicted.reasons]
    extra = [pair.share_saved(CLIENT_SIDE, ENGINE_SIDE) for pair in short]
    figures = {**attainments(short), "extra_time_saved_pct_over_client_side": median(extra)}
    if wrong := [pair for pair in short if Case(ENGINE_SIDE, 0.0) in pair.of_cases]:
        figures["engine_alpha0_slowdown_pct"] = median(
            [
                _slower(pair.done(ENGINE_SIDE, 0.0).elapsed_s, pair.done(PREFIX_CACHED).elapsed_s)
                for pair in wrong
            ]
        )
    if reasoning:
        figures["reasoning_slowdown_pct"] = median(
            [
                _slower(pair.done(ENGINE_SIDE).reasoned_s, pair.done(PREFIX_CACHED).reasoned_s)
                for pair in reasoning
            ]
        )
    if fitting:
        figures["extra_ms_saved_over_client_side"] = _ms_saved(
            fitting, [(CLIENT_SIDE, ENGINE_SIDE)], lambda done: done.after_reasoning_s
        )
        figures["extra_ms_saved_over_drafted_calls"] = _ms_saved(
            fitting, [(CALLS_DRAFTED, ENGINE_SIDE)], lambda done: done.after_reasoning_s
        )
        figures["o2_call_ms_saved"] = _ms_saved(fitting, _O2, lambda done: done.call_s)
        figures["o3_reentry_ms_saved"] = _ms_saved(
            fitting, _O3, lambda done: done.handover_s + done.reentry_s
        )
    return figures


def model_figures(compared: Sequence[Compared]) -> dict[str, Estimate]:
    """Return what explains the savings with a given model: the paper's delta, 2o, and what is read again."""
    return {
        "decode_ms": median([1000 * pair.predicted.decode_s for pair in compared]),
        "call_tokens": median(
            [pair.done(PREFIX_CACHED).first_tokens - pair.task.reasoning_tokens for pair in compared]
        ),
        "round_trip_ms": median([1000 * pair.round_trip_s for pair in compared]),
        "reread_tokens": median(
            [pair.done(CLIENT_SIDE).read_tokens - pair.done(CLIENT_SIDE).output_tokens for pair in compared]
        ),
    }


def _slower(seconds: float, than: float) -> float:
    return 100 * (seconds / than - 1)


def _ms_saved(
    compared: Sequence[Compared], pairs: Sequence[tuple[Side, Side]], seconds: Callable[[Done], float]
) -> Estimate:
    """Return the median over the tasks of what the second side of a pair saves, the mean of the pairs."""
    return median(
        [
            1000 * statistics.fmean(seconds(task.done(a)) - seconds(task.done(b)) for a, b in pairs)
            for task in compared
        ]
    )


def verdicts_table(figures: Mapping[str, Estimate]) -> Table:
    """Return whether the engine side pays: shown only where the whole interval is on one side of 0."""
    return Table(
        title="what the engine side adds to the client side",
        columns=("figure", "measured", "verdict"),
        rows=tuple((name, each, _verdict(each)) for name, each in figures.items() if "_saved" in name),
    )


def _verdict(saved: Estimate) -> str:
    if saved.low is None or saved.high is None or saved.low <= 0 <= saved.high:
        return "not shown"
    return "saves" if saved.low > 0 else "costs"


def phases_table(compared: Sequence[Compared]) -> Table:
    """Return where the engine side saves its time beside the client side, by the parts of a task."""

    def ms(side: Side, seconds: Callable[[Done], float]) -> Estimate:
        return median([1000 * seconds(pair.done(side)) for pair in compared])

    def saved_s(pair: Compared, seconds: Callable[[Done], float]) -> float:
        return seconds(pair.done(CLIENT_SIDE)) - seconds(pair.done(ENGINE_SIDE))

    return Table(
        title="where a turn's time goes",
        columns=("part", "client-side ms", "engine-side ms", "saved ms", "saved, % of vanilla"),
        rows=tuple(
            (
                part,
                ms(CLIENT_SIDE, seconds),
                ms(ENGINE_SIDE, seconds),
                median([1000 * saved_s(pair, seconds) for pair in compared]),
                median([100 * saved_s(pair, seconds) / pair.done(VANILLA).elapsed_s for pair in compared]),
            )
            for part, seconds in {**_PHASES, "the whole": lambda done: done.elapsed_s}.items()
        ),
    )


def reasoning_table(compared: Sequence[Compared]) -> Table:
    """Return what would be saved of a turn that reasons longer, at the measured time of a token."""

    def saved_pct(pair: Compared, tokens: int) -> float:
        more_s = (tokens - pair.task.reasoning_tokens) * pair.predicted.decode_s
        vanilla_s = pair.done(VANILLA).elapsed_s
        return pair.share_saved(CLIENT_SIDE, ENGINE_SIDE) * vanilla_s / (vanilla_s + more_s)

    return Table(
        title="what the engine side saves over the client side, by the tokens before a call",
        columns=("reasoning tokens", "", "saved, % of vanilla"),
        rows=tuple(
            (
                tokens,
                "computed" if number else "measured",
                median([saved_pct(pair, tokens) for pair in compared]),
            )
            for number, tokens in enumerate((compared[0].task.reasoning_tokens, *_MORE_REASONING))
        ),
    )


def tokens_identical(compared: Sequence[Compared]) -> Estimate:
    """Return the share of tasks in which the model has said the same on all sides."""
    equal = [len({done.transcript for done in each.of_cases.values()}) == 1 for each in compared]
    return share(sum(equal), len(equal))


def sides_table(compared: Mapping[str, Sequence[Compared]]) -> Table:
    """Return the time a task of each side with right drafts, by the latency of the tools."""
    return Table(
        title="time a task (Figure 8)",
        columns=("tools", "side", "seconds a task", "time saved, % of vanilla", "answered in the engine"),
        rows=tuple(
            (
                tools,
                side.name,
                mean([each.done(side).elapsed_s for each in tasks_done]),
                mean([each.share_saved(VANILLA, side) for each in tasks_done]),
                share(sum(each.done(side).in_engine for each in tasks_done), len(tasks_done)),
            )
            for tools, tasks_done in compared.items()
            for side in SIDES
        ),
    )
