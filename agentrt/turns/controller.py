"""Whether a guess is worth asking for, and worth running: SpecTools Eqs. 1-3 with what was measured."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from ..config import SpeculationConfig
from ..perfmodel import saved_seconds
from ..reports.events import (
    CallClaimed,
    CallMissed,
    DraftJudged,
    PredictorAsked,
    PredictorCharged,
    SpeculationEvent,
    SpeculationStarted,
    SpeculationWasted,
    TurnAnswered,
)
from .budget import Spending

_MEMORY = 0.95
"""How much of an estimate is kept at each observation: the last twenty make up two thirds of it."""
_COLD_ASKS = 8  # at first a predictor is asked for as many samples as the user said
_DRY_ASKS = 16  # so many in a row without a right guess are taken for a claim rate of zero
_MAX_SKIPPED = 256
_EXPLORE_EVERY = 8
_LADDER = (1, 3, 5, 7, 9)  # the sample counts of SpecTools §4.3
_MAX_OPEN_TURNS = 256
_LEAST_LEAD = 0.05  # of G: a model that has not answered yet goes on for a while


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to go on, with how many samples, and if not, why not."""

    speculate: bool
    samples: int = 0
    reason: str = ""


class _Mean:
    """A mean in which older observations count ever less; None before the first."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._weight = 0.0

    def add(self, value: float) -> None:
        self._sum = _MEMORY * self._sum + value
        self._weight = _MEMORY * self._weight + 1

    @property
    def value(self) -> float | None:
        return self._sum / self._weight if self._weight else None


class _Rate(_Mean):
    """A mean of shares that begins with one imagined success: optimistic until it knows better."""

    def __init__(self) -> None:
        super().__init__()
        self.add(1.0)

    @property
    def value(self) -> float:
        return self._sum / self._weight


class _Samples:
    """How asking for one number of samples went: means per asked turn."""

    def __init__(self) -> None:
        self.asks = 0
        self.correct = _Rate()
        self.wrong = _Mean()
        self.money = _Mean()


class _Pair:
    """One predictor's guesses of one tool."""

    def __init__(self) -> None:
        self.precision = _Rate()
        self.correct = 0.0
        """Right guesses, older ones counting less: how much this tool weighs among the predictor's."""
        self.lead_s = _Mean()
        """G - g of the right guesses, each in its own turn."""


class _Predictor:
    def __init__(self) -> None:
        self.by_samples: dict[int, _Samples] = {}
        self.asks = 0
        self.dry_asks = 0
        self.skipped = 0
        self.backing_off = False
        self.interval = 1


@dataclass(slots=True)
class _Asked:
    """A turn's dealings with one predictor, until the turn is answered."""

    samples: int
    judged: list[DraftJudged] = field(default_factory=list)
    money: float = 0.0


class Controller:
    """Decides for each turn which predictors to ask, and for each guess whether to run it. Thread-safe.

    It is a :class:`~agentrt.reports.events.SpeculationObserver` of every event and keeps, with decay, the
    precision and lead of each predictor on each tool, each tool's time, the model's time, and what asking
    for each number of samples came to. It has no clock: decisions are told the time. What is not known
    yet is hoped for, so that the first turn already speculates.
    """

    def __init__(self, config: SpeculationConfig) -> None:
        """Nothing is known yet."""
        self._config = config
        self._spending = Spending(config.budget)
        self._lock = threading.Lock()
        self._predictors: dict[str, _Predictor] = {}
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._tool_s: dict[str, _Mean] = {}
        self._generation_s = _Mean()
        self._turns: OrderedDict[int, dict[str, _Asked]] = OrderedDict()

    def should_ask(self, predictor: str, samples: int, now: float) -> Decision:
        """Decide at the start of a turn whether to ask ``predictor``, and for how many of ``samples``.

        Asked are as many as promise the most: per turn, what right guesses are expected to save (Eq. 1's
        ``(G + T) - max{G, g + T}`` for each), less the weight of wrong ones and the price. Where nothing
        is to be gained the predictor is tried again after ever more turns.
        """
        with self._lock:
            if self._config.mode == "off":
                return Decision(False, reason="speculation is off")
            spent = self._spending.exhausted(now)
            if spent is not None:
                return Decision(False, reason=spent)
            known = self._predictors.setdefault(predictor, _Predictor())
            chosen, value = self._best_samples(predictor, known, samples)
            hopeless = known.dry_asks >= _DRY_ASKS or value < 0
            if hopeless and known.backing_off:
                known.skipped += 1
                if known.skipped <= known.interval:
                    return Decision(False, reason="its guesses are not expected to save anything")
            known.backing_off, known.skipped = hopeless, 0
            return Decision(True, 1 if hopeless else chosen)

    def should_run(
        self, predictor: str, tool: str, now: float, *, draft_s: float, cost: float = 0.0
    ) -> Decision:
        """Decide whether to run the call of ``tool`` that ``predictor`` guessed ``draft_s`` into the turn.

        ``cost`` is what a run of the tool costs. A guess that is not run is judged all the same, so that a
        predictor which has become better is noticed without a wasted run.
        """
        with self._lock:
            if self._config.mode != "on":
                return Decision(False, reason=f"speculation is {self._config.mode}")
            spent = self._spending.exhausted(now, money=cost)
            if spent is not None:
                return Decision(False, reason=spent)
            pair = self._pairs.get((predictor, tool))
            right = pair.precision.value if pair is not None else 1.0
            tool_s = self._tool_mean(tool)
            wasted_s = self._config.wasted_second_weight * tool_s + self._in_seconds(cost)
            if right * saved_seconds(self._lead_left(draft_s), tool_s) >= (1 - right) * wasted_s:
                return Decision(True, 1)
            return Decision(
                False, reason=f"{right:.0%} of its guesses of this tool were right lately: too few"
            )

    def on_event(self, event: SpeculationEvent) -> None:
        """Learn from what happened."""
        with self._lock:
            match event:
                case PredictorAsked():
                    self._open(event.turn)[event.predictor] = _Asked(event.samples)
                case DraftJudged() if (asked := self._asked(event.turn, event.predictor)) is not None:
                    asked.judged.append(event)
                case PredictorCharged(cost=cost):
                    self._spending.add(tokens=cost.input_tokens + cost.output_tokens, money=cost.money)
                    if (asked := self._asked(event.turn, event.predictor)) is not None:
                        asked.money += cost.money
                case TurnAnswered():
                    if event.tools:
                        self._generation_s.add(event.generation_s)
                    for predictor, asked in self._turns.pop(event.turn, {}).items():
                        self._judge(predictor, asked, event.generation_s)
                case SpeculationStarted():
                    self._spending.add(runs=1)
                case CallClaimed():
                    self._spending.add(runs=-1)
                    self._tool_s.setdefault(event.tool, _Mean()).add(event.tool_s)
                case CallMissed():
                    self._tool_s.setdefault(event.tool, _Mean()).add(event.tool_s)
                case SpeculationWasted():
                    self._spending.add(seconds=event.ran_s, money=event.cost)

    def _best_samples(self, predictor: str, known: _Predictor, most: int) -> tuple[int, float]:
        """The number of samples that promises the most seconds a turn, and how many it promises."""
        if known.asks < _COLD_ASKS:
            return most, math.inf
        ladder = [each for each in _LADDER if each < most] + [most]
        if known.asks % _EXPLORE_EVERY == 0:
            least_tried = min(ladder, key=lambda each: self._tried(known, each))
            return least_tried, self._value(predictor, known, least_tried)
        values = {each: self._value(predictor, known, each) for each in ladder if each in known.by_samples}
        best = max(values.values())
        # Of those that are as good as equal the smallest, because estimates are never quite equal.
        return min((each, value) for each, value in values.items() if value >= best - 0.02 * abs(best))

    @staticmethod
    def _tried(known: _Predictor, samples: int) -> int:
        tried = known.by_samples.get(samples)
        return tried.asks if tried is not None else 0

    def _value(self, predictor: str, known: _Predictor, samples: int) -> float:
        tried = known.by_samples.get(samples)
        if tried is None:
            return math.inf
        saved_s, tool_s = self._gain(predictor)
        wasted_s = (tried.wrong.value or 0.0) * self._config.wasted_second_weight * tool_s
        return tried.correct.value * saved_s - wasted_s - self._in_seconds(tried.money.value or 0.0)

    def _gain(self, predictor: str) -> tuple[float, float]:
        """What one right guess of this predictor saves, and how long its tools run, in mean seconds."""
        saved = tools = weights = 0.0
        for (name, tool), pair in self._pairs.items():
            if name == predictor and pair.correct:
                tool_s = self._tool_mean(tool)
                lead_s = pair.lead_s.value or 0.0
                saved += pair.correct * saved_seconds(lead_s, tool_s)
                tools += pair.correct * tool_s
                weights += pair.correct
        return (saved / weights, tools / weights) if weights else (0.0, 0.0)

    def _judge(self, predictor: str, asked: _Asked, generation_s: float) -> None:
        known = self._predictors.setdefault(predictor, _Predictor())
        tried = known.by_samples.setdefault(asked.samples, _Samples())
        correct = sum(draft.correct for draft in asked.judged)
        known.asks += 1
        tried.asks += 1
        tried.correct.add(correct)
        tried.wrong.add(len(asked.judged) - correct)
        tried.money.add(asked.money)
        if correct:
            known.dry_asks, known.interval = 0, 1
        else:
            known.dry_asks += 1
            if known.backing_off:
                known.interval = min(2 * known.interval, _MAX_SKIPPED)
        for draft in asked.judged:
            pair = self._pairs.setdefault((predictor, draft.tool), _Pair())
            pair.precision.add(draft.correct)
            pair.correct = _MEMORY * pair.correct + draft.correct
            if draft.correct:
                pair.lead_s.add(generation_s - draft.draft_s)

    def _lead_left(self, draft_s: float) -> float:
        """How long the model is expected to go on writing."""
        generation_s = self._generation_s.value
        if generation_s is None:
            return math.inf
        return max(generation_s - draft_s, _LEAST_LEAD * generation_s)

    def _tool_mean(self, tool: str) -> float:
        known = self._tool_s.get(tool)
        mean = known.value if known is not None else None
        return 1.0 if mean is None else mean

    def _in_seconds(self, money: float) -> float:
        worth = self._config.second_saved_is_worth
        return money / worth if worth is not None else 0.0

    def _open(self, turn: int) -> dict[str, _Asked]:
        asked = self._turns.setdefault(turn, {})
        while len(self._turns) > _MAX_OPEN_TURNS:  # turns that were never answered
            self._turns.popitem(last=False)
        return asked

    def _asked(self, turn: int, predictor: str) -> _Asked | None:
        return self._turns.get(turn, {}).get(predictor)
