"""When to run a predictor and when to run its drafts: SpecTools Eqs. 1-3 with measured values."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable
from dataclasses import dataclass

from ..config import Budget, SpeculationConfig
from ..drafts import DraftCost
from ..perfmodel import saved_seconds
from ..reports import events
from .payoff import Mean, OpenDrafts, PredictorEstimate, RunTimes, SampleEstimate, ToolEstimate

_COLD_TURNS = 8  # a new predictor draws as many samples as the user has set
_DRY_TURNS = 16  # so many in a row without a right draft count as a claim rate of zero
_EXPLORE_EVERY = 8
_LADDER = (1, 3, 5, 7, 9)  # the sample counts of SpecTools §4.3
_MAX_OPEN_TURNS = 256
_LEAST_LEAD = 0.05  # of G: a model that has not answered yet goes on for a while
_UNITS = ("runs", "seconds", "tokens", "money")
_ROUNDING = 1e-9  # the share of a limit by which sums and the decay are inexact


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to speculate, with how many samples, and if not, why not."""

    speculate: bool
    samples: int = 0
    reason: str = ""


class Controller:
    """Decides for each turn which predictors to run, and for each draft whether to run it. Thread-safe.

    It is a :class:`~agentrt.reports.events.SpeculationObserver` of every event and keeps, with decay, the
    precision and lead of each predictor on each tool, each tool's time, the model's time, and the gain and
    cost of each number of samples. It has no clock: decisions take the time. Unknown values are assumed to
    be favourable, so that the first turn already speculates; what that turn measures can stop the second.
    """

    def __init__(self, config: SpeculationConfig) -> None:
        """``config`` sets the mode, the budget and the weights of waste."""
        self._config = config
        self._spending = Spending(config.budget)
        self._lock = threading.Lock()
        self._predictors: dict[str, PredictorEstimate] = {}
        self._pairs: dict[tuple[str, str], ToolEstimate] = {}
        self._tool_s: dict[str, RunTimes] = {}
        self._generation_s = Mean()
        self._turns: OrderedDict[int, dict[str, OpenDrafts]] = OrderedDict()

    def should_predict(
        self, predictor: str, samples: int, now: float, *, shares_cores: bool = True
    ) -> Decision:
        """Decide at the start of a turn whether to run ``predictor``, and with how many of ``samples``.

        The number of samples is the one with the highest expected value: per turn, what right drafts save
        (Eq. 1's ``(G + T) - max{G, g + T}`` for each), less the weight of wrong ones and the price. A
        predictor whose value is below what it costs a turn is only probed, with one sample. One that
        ``shares_cores`` with the model, and could slow it down by more than is expected to be saved, is left
        out of some turns, so that the model's time without it is known.

        Sixteen turns in a row without a right draft count as a value of zero. Not so for a predictor that
        neither shares cores nor charges: it costs so little that right drafts may be rare, as of one that
        drafts only what it is sure of. One right draft in the turns since the last one is taken for possible,
        and what wrong ones waste is judged draft by draft.
        """
        with self._lock:
            if self._config.mode == "off":
                return Decision(False, reason="speculation is off")
            spent = self._spending.exhausted(now, runs=1)
            if spent is not None:
                return Decision(False, reason=spent)
            known = self._predictors.setdefault(predictor, PredictorEstimate())
            chosen, value = self._best_samples(predictor, known, samples)
            cost, could_save_s = known.cost, self._could_save()
            costs_little = not (shares_cores or known.charged)
            if costs_little:
                value = max(value, could_save_s / (known.dry_turns + 1))
            if (known.dry_turns >= _DRY_TURNS and not costs_little) or value < cost.seconds:
                if known.probes.outdated(could_save_s):
                    known.probes.paid(could_save_s)
                    return Decision(True, 1)
                if known.probes.due(cost.seconds, self._generation_s.value, could_save_s):
                    return Decision(True, 1)
                return Decision(False, reason="its drafts are not expected to save more than they cost")
            if shares_cores and cost.needs_a_turn_without(value):
                cost.begin_turn_without()
                return Decision(False, reason="this turn measures the model without it")
            known.probes.paid(could_save_s)
            if known.turns and known.turns % _EXPLORE_EVERY == 0:
                chosen = self._least_tried(known, samples)
            return Decision(True, chosen)

    def budget_spent(self, now: float, cost: DraftCost) -> str | None:
        """Return why the budget does not allow a predictor ``cost`` more; None if it does."""
        with self._lock:
            tokens = cost.input_tokens + cost.output_tokens
            return self._spending.exhausted(now, tokens=tokens, money=cost.money)

    def should_run(
        self, predictor: str, tool: str, now: float, *, draft_s: float, cost: float = 0.0
    ) -> Decision:
        """Decide whether to run the call of ``tool`` that ``predictor`` drafted ``draft_s`` into the turn.

        ``cost`` is the price of one run of the tool. A draft that is not run is judged too, so that a
        predictor's improvement is noticed without a wasted run.
        """
        with self._lock:
            if self._config.mode != "on":
                return Decision(False, reason=f"speculation is {self._config.mode}")
            spent = self._run_too_many(tool, now, cost)
            if spent is not None:
                return Decision(False, reason=spent)
            pair = self._pairs.get((predictor, tool))
            right = pair.precision.value if pair is not None else 1.0
            tool_s = self._tool_mean(tool)
            wasted_s = self._config.wasted_second_weight * tool_s + self._in_seconds(cost)
            if right * saved_seconds(self._lead_left(draft_s), tool_s) >= (1 - right) * wasted_s:
                return Decision(True, 1)
            return Decision(
                False, reason=f"{right:.0%} of its drafts of this tool were right lately: too few"
            )

    def start_run(self, turn: int, tool: str, now: float, cost: float) -> str | None:
        """Spend a run of ``tool`` on the budget; return why it does not allow it, None if it does.

        It is asked when nothing else is in the way of the run, since the budget may have been spent by
        others since :meth:`should_run` was.
        """
        with self._lock:
            spent = self._run_too_many(tool, now, cost)
            if spent is None:
                self._spending.start_run((turn, tool), seconds=self._tool_mean(tool, unknown=0.0), money=cost)
            return spent

    def cancel_run(self, turn: int, tool: str, cost: float) -> None:
        """Give back what :meth:`start_run` has spent on a run that did not start."""
        with self._lock:
            self._spending.claim_run((turn, tool), money=cost)

    def tool_seconds(self, tools: Collection[str]) -> dict[str, float]:
        """Return the median seconds of the last runs of those of ``tools`` that were seen to run."""
        with self._lock:
            known = {name: self._tool_s[name].median for name in tools if name in self._tool_s}
        return {name: round(median, 3) for name, median in known.items() if 0 <= median < math.inf}

    def on_event(self, event: events.SpeculationEvent) -> None:
        """Update the estimates."""
        with self._lock:
            match event:
                case events.PredictorStarted():
                    known = self._predictors.setdefault(event.predictor, PredictorEstimate())
                    self._open_turn(event.turn)[event.predictor] = OpenDrafts(event.samples, known.dry_turns)
                case events.PredictorEnded(ran_s=ran_s):
                    if (drafts := self._drafts_of(event.turn, event.predictor)) is not None:
                        drafts.ran_s = ran_s
                case events.DraftJudged() if (
                    drafts := self._drafts_of(event.turn, event.predictor)
                ) is not None:
                    drafts.judged.append(event)
                case events.PredictorCharged(cost=cost):
                    self._spending.add(tokens=cost.input_tokens + cost.output_tokens, money=cost.money)
                    self._predictors.setdefault(event.predictor, PredictorEstimate()).charged = True
                    if (drafts := self._drafts_of(event.turn, event.predictor)) is not None:
                        drafts.money += cost.money
                case events.TurnAnswered():
                    self._answered(event, self._turns.pop(event.turn, {}))
                case events.CallClaimed():
                    self._spending.claim_run((event.turn, event.tool), money=event.cost)
                    self._tool_s.setdefault(event.tool, RunTimes()).add(event.tool_s)
                case events.CallMissed():
                    self._tool_s.setdefault(event.tool, RunTimes()).add(event.tool_s)
                case events.DraftUnclaimed() if (
                    pair := self._pairs.get((event.predictor, event.tool))
                ) is not None:
                    pair.add_unclaimed()
                case events.SpeculationWasted():
                    self._spending.waste_run((event.turn, event.tool), seconds=event.ran_s)

    def _run_too_many(self, tool: str, now: float, cost: float) -> str | None:
        return self._spending.exhausted(now, runs=1, seconds=self._tool_mean(tool, unknown=0.0), money=cost)

    def _best_samples(self, predictor: str, known: PredictorEstimate, most: int) -> tuple[int, float]:
        """Return the number of samples with the highest expected seconds saved a turn, and those seconds."""
        values = {
            each: self._value(predictor, tried) for each, tried in known.by_samples.items() if each <= most
        }
        best = max(values.values(), default=math.inf)
        if known.turns < _COLD_TURNS:
            return most, best
        if math.isinf(best):  # no tool was called yet
            return most, best
        # The smallest of those within 2 %: estimates are never quite equal.
        return min((each, value) for each, value in values.items() if value >= best - 0.02 * abs(best))

    @staticmethod
    def _least_tried(known: PredictorEstimate, most: int) -> int:
        ladder = [each for each in _LADDER if each < most] + [most]
        turns = {each: tried.turns for each, tried in known.by_samples.items()}
        return min(ladder, key=lambda each: turns.get(each, 0))

    def _value(self, predictor: str, tried: SampleEstimate) -> float:
        saved_s, tool_s = self._gain(predictor)
        wasted_s = (tried.wrong.value or 0.0) * self._config.wasted_second_weight * tool_s
        return tried.correct.value * saved_s - wasted_s - self._in_seconds(tried.money.value or 0.0)

    def _gain(self, predictor: str) -> tuple[float, float]:
        """Return the mean seconds that one right draft of this predictor saves, and that its tools run.

        Of a predictor that was never right they are the most that a draft could save.
        """
        saved = tools = weights = 0.0
        for (name, tool), pair in self._pairs.items():
            if name == predictor and pair.correct:
                tool_s = self._tool_mean(tool)
                lead_s = pair.lead_s.value or 0.0
                saved += pair.correct * self._saved(lead_s, tool_s)
                tools += pair.correct * tool_s
                weights += pair.correct
        return (saved / weights, tools / weights) if weights else (self._could_save(), 0.0)

    def _could_save(self) -> float:
        """Return the most seconds that a right draft could save, by the slowest tool; infinity if unknown."""
        tools = [mean.value for mean in self._tool_s.values() if mean.value is not None]
        if self._generation_s.value is None or not tools:
            return math.inf
        return self._saved(self._generation_s.value, max(tools))

    def _saved(self, lead_s: float, tool_s: float) -> float:
        """Return Eq. 1's saving; a request sent ahead saves the model's time, however quick the tool is."""
        return saved_seconds(lead_s, tool_s if self._config.turn_ahead is None else math.inf)

    def _answered(self, event: events.TurnAnswered, opened: dict[str, OpenDrafts]) -> None:
        for predictor, drafts in opened.items():
            self._judge(predictor, drafts, event.generation_s)
            ran_s = event.generation_s if drafts.ran_s is None else drafts.ran_s
            self._predictors[predictor].cost.ran_s.add(ran_s)
            # The first turn also loads and compiles what the others use.
            if event.overhead_s is not None and self._predictors[predictor].turns > 1:
                self._predictors[predictor].cost.add_overhead(event.overhead_s / len(opened))
        for predictor, known in self._predictors.items():
            known.cost.note_answer(predicted=predictor in opened)
        if event.tools:
            self._generation_s.add(event.generation_s)
            for predictor, known in self._predictors.items():
                known.cost.add_turn(event.generation_s, predicted=predictor in opened)

    def _judge(self, predictor: str, drafts: OpenDrafts, generation_s: float) -> None:
        known = self._predictors.setdefault(predictor, PredictorEstimate())
        tried = known.by_samples.setdefault(drafts.samples, SampleEstimate())
        correct = sum(draft.correct for draft in drafts.judged)
        known.turns += 1
        tried.turns += 1
        tried.correct.add(correct)
        tried.wrong.add(len(drafts.judged) - correct)
        tried.money.add(drafts.money)
        if correct:
            known.dry_turns = 0
        elif known.dry_turns == drafts.dry_turns:  # turns at one time cannot learn of each other: one
            known.dry_turns += 1
        for draft in drafts.judged:
            pair = self._pairs.setdefault((predictor, draft.tool), ToolEstimate())
            pair.add(correct=draft.correct, lead_s=generation_s - draft.draft_s)

    def _lead_left(self, draft_s: float) -> float:
        """Return the seconds for which the model is expected to go on writing."""
        generation_s = self._generation_s.value
        if generation_s is None:
            return math.inf
        return max(generation_s - draft_s, _LEAST_LEAD * generation_s)

    def _tool_mean(self, tool: str, *, unknown: float = 1.0) -> float:
        """Return the mean seconds of a tool; ``unknown`` before its first run has ended."""
        known = self._tool_s.get(tool)
        mean = known.value if known is not None else None
        return unknown if mean is None else mean

    def _in_seconds(self, money: float) -> float:
        worth = self._config.second_saved_is_worth
        return money / worth if worth is not None else 0.0

    def _open_turn(self, turn: int) -> dict[str, OpenDrafts]:
        drafts = self._turns.setdefault(turn, {})
        while len(self._turns) > _MAX_OPEN_TURNS:  # turns that were never answered
            self._turns.popitem(last=False)
        return drafts

    def _drafts_of(self, turn: int, predictor: str) -> OpenDrafts | None:
        return self._turns.get(turn, {}).get(predictor)


class Spending:
    """The spent part of a :class:`Budget`. It has no clock: methods that depend on the time take it."""

    def __init__(self, budget: Budget) -> None:
        """Track the units that ``budget`` limits."""
        self._limits: dict[str, float] = {
            unit: limit for unit in _UNITS if (limit := getattr(budget, unit)) is not None
        }
        self._spent = dict.fromkeys(self._limits, 0.0)
        self._per_seconds = budget.per_seconds
        self._decayed_at: float | None = None
        self._running: dict[Hashable, list[float]] = {}

    def add(self, *, runs: int = 0, seconds: float = 0.0, tokens: int = 0, money: float = 0.0) -> None:
        """Spend; a negative amount gives back what turned out not to be wasted."""
        for unit, amount in zip(_UNITS, (runs, seconds, tokens, money), strict=True):
            if unit in self._spent:
                self._spent[unit] = max(0.0, self._spent[unit] + amount)

    def start_run(self, run: Hashable, *, seconds: float, money: float) -> None:
        """Spend a run that is expected to take ``seconds`` and costs ``money``."""
        self._running.setdefault(run, []).append(seconds)
        self.add(runs=1, seconds=seconds, money=money)

    def claim_run(self, run: Hashable, *, money: float) -> None:
        """Give back what a run has spent: it was not wasted."""
        self.add(runs=-1, seconds=-self._expected(run), money=-money)

    def waste_run(self, run: Hashable, *, seconds: float) -> None:
        """Replace the seconds that were expected of a run by the measured ones."""
        self.add(seconds=seconds - self._expected(run))

    def _expected(self, run: Hashable) -> float:
        open_runs = self._running.get(run)
        if not open_runs:
            return 0.0
        seconds = open_runs.pop()
        if not open_runs:
            del self._running[run]
        return seconds

    def exhausted(
        self, now: float, *, runs: int = 0, seconds: float = 0.0, tokens: int = 0, money: float = 0.0
    ) -> str | None:
        """Return why the budget allows no more, if this much is to be spent next; None if it does."""
        self._decay(now)
        due = dict(zip(_UNITS, (runs, seconds, tokens, money), strict=True))
        for unit, limit in self._limits.items():
            spent = self._spent[unit]
            if spent >= limit or spent + due[unit] > limit * (1 + _ROUNDING):
                return f"the budget of {limit:g} {unit} is spent"
        return None

    def _decay(self, now: float) -> None:
        if self._per_seconds is None:
            return
        elapsed = 0.0 if self._decayed_at is None else max(0.0, now - self._decayed_at)
        self._decayed_at = now
        for unit, limit in self._limits.items():
            self._spent[unit] = max(0.0, self._spent[unit] - limit * elapsed / self._per_seconds)
