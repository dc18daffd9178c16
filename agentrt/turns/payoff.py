"""When predicting pays, by estimates that forget: of predictors, their drafts, and what they cost a turn."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..reports.events import DraftJudged

DECAY = 0.95
"""The share of an estimate kept at each observation: the last twenty make up two thirds of it."""

_RUNS_OF_A_MEDIAN = 20


class Mean:
    """A decaying mean: older observations count less."""

    def __init__(self) -> None:
        """Create a mean without observations."""
        self._sum = 0.0
        self.weight = 0.0
        """The decaying number of observations, twenty at most."""

    def add(self, value: float) -> None:
        """Add an observation."""
        self._sum = DECAY * self._sum + value
        self.weight = DECAY * self.weight + 1

    def correct_last(self, change: float) -> None:
        """Change the value of a recent observation by ``change``."""
        self._sum = max(0.0, self._sum + change)

    @property
    def value(self) -> float | None:
        """The mean; None before the first observation."""
        return self._sum / self.weight if self.weight else None


class RunTimes(Mean):
    """The seconds that a tool's runs took: their decaying mean, and the median of the last ones."""

    def __init__(self) -> None:
        """Create the times of a tool that was never seen to run."""
        super().__init__()
        self._last: deque[float] = deque(maxlen=_RUNS_OF_A_MEDIAN)

    def add(self, value: float) -> None:
        """Add the seconds of a run."""
        super().add(value)
        self._last.append(value)

    @property
    def median(self) -> float:
        """The median of the last runs, which one that hung does not change. There must have been one."""
        return statistics.median(self._last)


class Rate(Mean):
    """A decaying mean of shares that starts from one imagined success, so it is optimistic at first."""

    def __init__(self) -> None:
        """Create a rate of 1."""
        super().__init__()
        self.add(1.0)

    @property
    def value(self) -> float:
        """The mean share."""
        return self._sum / self.weight


_FIRST_OVERHEAD_S = 0.001
"""Assumed before the first measurement: about what a claimed turn takes on one core of a laptop."""
_MOST_OVERHEAD_GROWTH = 8
"""A turn's work counts at most as so many means: it takes a second where a large process collects garbage."""
_MOST_PROBE_SHARE = 0.005
"""Probes of a predictor that does not pay may cost this share of the model's time."""
_LONGEST_INTERVAL = 256
"""Turns between two probes that cost next to nothing."""
_MOST_AWAITED = 16
"""A turn without the predictor that so many answers have overtaken may never be answered."""
_free = False


@contextmanager
def free_prediction() -> Iterator[None]:
    """Take prediction to cost nothing, in the whole process, inside the block."""
    global _free
    previous, _free = _free, True
    try:
        yield
    finally:
        _free = previous


class PredictionCost:
    """Seconds that one predictor adds to a turn: the SDK's work for it, and what it takes from the model.

    The latter is the mean difference of the model's time between neighbouring turns with and without the
    predictor. That time varies by itself, so few differences count less: by ``1 / (1 + 2/n)`` for ``n`` of
    them, the posterior mean if the times of single turns and the slowdowns of predictors vary equally.
    """

    def __init__(self) -> None:
        """Create the cost of a predictor that was never run."""
        self.overhead_s = Mean()
        """The SDK's work in turns with this predictor."""
        self.overhead_s.add(_FIRST_OVERHEAD_S)
        self.ran_s = Mean()
        """How long the predictor ran beside the model in a turn."""
        self._slower_s = Mean()
        self._last: tuple[bool, float] | None = None
        self._turns_with = 0
        self._differences = 0
        self._awaited = 0

    def add_overhead(self, seconds: float) -> None:
        """Add the SDK's CPU time in a turn with this predictor."""
        known = self.overhead_s.value or 0.0
        self.overhead_s.add(min(seconds, _MOST_OVERHEAD_GROWTH * known))

    def begin_turn_without(self) -> None:
        """Note that a turn begins to measure the model without the predictor: one at a time suffices."""
        self._awaited = _MOST_AWAITED

    def note_answer(self, *, predicted: bool) -> None:
        """Note that a turn was answered, with or without this predictor."""
        self._awaited = max(0, self._awaited - 1) if predicted else 0

    def add_turn(self, generation_s: float, *, predicted: bool) -> None:
        """Add the model's time in a turn that called tools, with or without this predictor."""
        if self._last is not None and self._last[0] != predicted:
            slower_s = generation_s - self._last[1]
            self._slower_s.add(slower_s if predicted else -slower_s)
            self._differences += 1
        self._last = predicted, generation_s
        self._turns_with += predicted

    @property
    def seconds(self) -> float:
        """The expected cost of a turn with this predictor."""
        return 0.0 if _free else (self.overhead_s.value or 0.0) + self._slowdown_s

    @property
    def most_seconds(self) -> float:
        """The most it may be: a predictor that shares the cores equally halves the model's speed."""
        return 0.0 if _free else (self.overhead_s.value or 0.0) + 0.5 * (self.ran_s.value or 0.0)

    def needs_a_turn_without(self, value_s: float) -> bool:
        """Whether to measure a turn without the predictor, which is expected to save ``value_s``.

        There are to be twice as many differences as the logarithm of the turns with it, times the share of
        :attr:`most_seconds` that ``value_s`` does not outweigh; none if it outweighs all. One turn without it
        makes two differences. Those that are not beside one with it say nothing about its cost.
        """
        after_one_with = self._last is not None and self._last[0]
        if value_s >= self.most_seconds or not after_one_with or self._awaited:
            return False
        doubt = 1 - max(0.0, value_s) / self.most_seconds
        return self._differences < 2 * doubt * math.log2(self._turns_with + 1)

    @property
    def _slowdown_s(self) -> float:
        slower_s = self._slower_s.value
        return 0.0 if slower_s is None else max(0.0, slower_s) / (1 + 2 / self._slower_s.weight)


class Probes:
    """When to run a predictor that is not expected to pay, to see whether that has changed.

    The number of turns between two probes doubles, up to 256, and is never so small that probes cost more
    than half a percent of the model's time. When what could be saved has more than doubled since the last
    run, what was measured is outdated and a probe is due at once.
    """

    def __init__(self) -> None:
        """Create the state of a predictor that is expected to pay."""
        self._skipped = 0
        self._interval = 1
        self._could_save_s = math.inf

    def paid(self, could_save_s: float) -> None:
        """Start over: the predictor is expected to pay and runs; a turn can save ``could_save_s`` at most."""
        self._skipped, self._interval = 0, 1
        self._could_save_s = could_save_s

    def outdated(self, could_save_s: float) -> bool:
        """Whether a turn can save more than twice as much as when the predictor last ran."""
        return could_save_s > 2 * self._could_save_s

    def due(self, cost_s: float, generation_s: float | None, could_save_s: float) -> bool:
        """Whether to probe in this turn, at this cost beside a model that takes ``generation_s``."""
        self._could_save_s = min(self._could_save_s, could_save_s)
        least = cost_s / (_MOST_PROBE_SHARE * generation_s) if generation_s else 0.0
        if self._skipped < max(self._interval, least):
            self._skipped += 1
            return False
        self._interval = min(2 * self._interval, _LONGEST_INTERVAL)
        self._skipped = 0
        self._could_save_s = could_save_s
        return True


@dataclass(slots=True)
class SampleEstimate:
    """Means per turn of a predictor that drew one number of samples."""

    turns: int = 0
    correct: Rate = field(default_factory=Rate)
    wrong: Mean = field(default_factory=Mean)
    money: Mean = field(default_factory=Mean)


@dataclass(slots=True)
class ToolEstimate:
    """Means over one predictor's drafts of one tool."""

    precision: Rate = field(default_factory=Rate)
    correct: float = 0.0
    """Decaying number of right drafts: the weight of this tool among the predictor's."""
    lead_s: Mean = field(default_factory=Mean)
    """G - g of the right drafts, each in its own turn."""

    def add(self, *, correct: bool, lead_s: float) -> None:
        """Add a judged draft that came ``lead_s`` before the answer."""
        self.precision.add(correct)
        self.correct = DECAY * self.correct + correct
        if correct:
            self.lead_s.add(lead_s)

    def add_unclaimed(self) -> None:
        """Count a draft that was added as right as a wrong one: its speculation was not claimed."""
        self.precision.correct_last(-1.0)
        self.correct = max(0.0, self.correct - 1)


@dataclass(slots=True)
class PredictorEstimate:
    """The turns of one predictor, and how it is doing by number of samples."""

    by_samples: dict[int, SampleEstimate] = field(default_factory=dict)
    turns: int = 0
    dry_turns: int = 0
    """Turns in a row without a right draft."""
    charged: bool = False
    """Whether it has ever charged tokens or money."""
    cost: PredictionCost = field(default_factory=PredictionCost)
    probes: Probes = field(default_factory=Probes)


@dataclass(slots=True)
class OpenDrafts:
    """One predictor's drafts in a turn that is not answered yet."""

    samples: int
    dry_turns: int = 0
    """Those of the predictor when the turn began."""
    judged: list[DraftJudged] = field(default_factory=list)
    ran_s: float | None = None
    """For how long the predictor ran; None while it runs."""
    money: float = 0.0
