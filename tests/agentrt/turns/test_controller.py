"""The controller runs the predictors and drafts that are expected to pay, and skips the rest."""

from __future__ import annotations

import copy
import random
import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.config import Budget, SpeculationConfig
from agentrt.drafts import DraftCost
from agentrt.reports import events as ev
from agentrt.turns.controller import Controller
from tests.hypothesis_profiles import examples


@dataclass
class Workload:
    """Turns that each call one tool, noted by a controller as in a session."""

    controller: Controller
    generation_s: float = 1.0
    tool_s: float = 1.0
    draft_s: float = 0.1
    samples: int = 1
    money: float = 0.0
    shares_cores: bool = True
    ends: bool = False
    """Whether the predictor ends with its drafts, rather than with the answer."""
    overhead_s: float | None = None
    turns: int = 0
    samples_drawn: list[int] = field(default_factory=list)
    """The number of samples of each turn; 0 where the predictor was skipped."""
    runs: int = 0

    def will_predict(self) -> bool:
        """Whether the next turn predicts; it asks a copy."""
        copied = copy.deepcopy(self.controller, {id(self.controller._lock): threading.Lock()})
        return copied.should_predict("p", self.samples, now=float(self.turns + 1)).speculate

    def turn(self, right_up_to: int | None, *, tool: str = "look", wrong: int = 0, times: int = 1) -> None:
        """Turns in which the right draft is among the first samples, and ``wrong`` others are made.

        0 is for an answer without a call, None for a call that is not drafted.
        """
        for _ in range(times):
            self._turn(right_up_to, tool, wrong)

    def _turn(self, right_up_to: int | None, tool: str, wrong: int) -> None:
        self.turns += 1
        number, note = self.turns, self.controller.on_event
        decision = self.controller.should_predict(
            "p", self.samples, now=float(number), shares_cores=self.shares_cores
        )
        self.samples_drawn.append(decision.samples if decision.speculate else 0)
        claimed = False
        if decision.speculate:
            note(ev.PredictorStarted(number, "p", decision.samples))
            if self.money:
                cost = DraftCost(10, 1, self.money * decision.samples)
                note(ev.PredictorCharged(number, "p", cost))
            correct = bool(right_up_to) and decision.samples >= right_up_to
            for is_right in [correct] * correct + [False] * wrong:
                run = self.controller.should_run("p", tool, float(number), draft_s=self.draft_s)
                if run.speculate:
                    self.runs += 1
                    assert self.controller.start_run(number, tool, float(number), 0.0) is None
                    note(ev.SpeculationStarted(number, tool, "p"))
                    claimed |= is_right
                    if not is_right:
                        note(ev.SpeculationWasted(number, tool, self.tool_s, "loser", "p"))
                note(ev.DraftJudged(number, "p", tool, is_right, self.draft_s))
            if self.ends:
                note(ev.PredictorEnded(number, "p", self.draft_s))
        tools = () if right_up_to == 0 else (tool,)
        note(ev.TurnAnswered(number, self.generation_s, tools, self.overhead_s))
        if right_up_to == 0:
            return
        if claimed:
            note(ev.CallClaimed(number, tool, self.tool_s, self.draft_s, self.draft_s, "p"))
        else:
            note(ev.CallMissed(number, tool, self.tool_s, "not predicted"))


def workload(config: SpeculationConfig | None = None, **given: float) -> Workload:
    return Workload(Controller(config or SpeculationConfig()), **given)  # type: ignore[arg-type]


def test_right_drafts_that_are_not_claimed_count_as_wrong() -> None:
    claimed, unclaimed = workload(), workload()
    for load in (claimed, unclaimed):
        load.turn(1, times=20)
    for _ in range(20):
        unclaimed.controller.on_event(ev.DraftUnclaimed(1, "look", "p", "expired"))
    decide = (claimed.controller.should_run, unclaimed.controller.should_run)
    assert [should_run("p", "look", 0.0, draft_s=0.1).speculate for should_run in decide] == [True, False]


def test_the_first_turn_already_speculates_with_all_samples() -> None:
    controller = Controller(SpeculationConfig())
    decision = controller.should_predict("p", 5, now=0.0)
    assert (decision.speculate, decision.samples) == (True, 5)
    assert controller.should_run("p", "look", 0.0, draft_s=0.1).speculate


def test_of_turns_at_one_time_one_measures_the_model_without_the_predictor() -> None:
    load = workload(generation_s=5.0)
    load.turn(1)
    decisions = [load.controller.should_predict("p", 1, now=2.0) for _ in range(6)]
    assert [decision.speculate for decision in decisions] == [False] + [True] * 5
    assert decisions[0].reason == "this turn measures the model without it"


def test_turns_at_one_time_without_a_right_draft_count_once() -> None:
    controller = Controller(SpeculationConfig())
    for number in range(1, 31):
        controller.on_event(ev.PredictorStarted(number, "p", 1))
    for number in range(1, 31):
        controller.on_event(ev.DraftJudged(number, "p", "look", False, 0.1))
        controller.on_event(ev.TurnAnswered(number, 1.0, ("look",)))
        controller.on_event(ev.CallMissed(number, "look", 1.0, "not predicted"))
    assert controller.should_predict("p", 1, now=40.0, shares_cores=False).speculate


def test_a_hopeless_predictor_costs_less_than_one_percent() -> None:
    served = workload(samples=3)
    served.turn(None, wrong=1, times=4000)
    assert sum(drawn > 0 for drawn in served.samples_drawn) < 0.01 * 4000
    assert sum(served.samples_drawn) < 0.02 * 4000
    assert served.runs < 20
    assert all(drawn <= 1 for drawn in served.samples_drawn[100:])


def test_a_predictor_that_becomes_right_is_found_again_and_used() -> None:
    served = workload()
    served.turn(None, wrong=1, times=300)
    served.turn(1, times=400)
    assert served.samples_drawn[-50:] == [1] * 50
    runs = served.runs
    served.turn(1)
    assert served.runs == runs + 1


def test_wrong_drafts_of_one_tool_do_not_stop_those_of_another() -> None:
    served = workload()
    for _ in range(60):
        served.turn(1, tool="good")
        served.turn(None, tool="bad", wrong=1)
    controller = served.controller
    assert controller.should_run("p", "good", 0.0, draft_s=0.1).speculate
    refused = controller.should_run("p", "bad", 0.0, draft_s=0.1)
    assert not refused.speculate
    assert "right lately" in refused.reason
    assert controller.should_run("q", "bad", 0.0, draft_s=0.1).speculate  # another predictor may know better


@pytest.mark.parametrize(("right_up_to", "expected"), [(1, 1), (3, 3), (7, 7)])
def test_it_draws_as_many_samples_as_it_takes_and_no_more(right_up_to: int, expected: int) -> None:
    served = workload(samples=9)
    served.turn(right_up_to, times=200)
    chosen = served.samples_drawn[100:]
    assert max(set(chosen), key=chosen.count) == expected


def test_a_price_that_samples_are_not_worth_buys_fewer() -> None:
    def most_frequent(worth: float) -> int:
        served = workload(SpeculationConfig(second_saved_is_worth=worth), samples=9, money=0.01)
        for turn in range(300):
            served.turn(1 if turn % 4 else 9)  # the ninth sample finds one in four
        chosen = served.samples_drawn[150:]
        return max(set(chosen), key=chosen.count)

    assert most_frequent(worth=100.0) == 9
    assert most_frequent(worth=0.1) == 1


def test_a_draft_that_costs_more_than_it_saves_is_not_run() -> None:
    served = workload(SpeculationConfig(second_saved_is_worth=1.0))
    for turn in range(100):
        served.turn(1 if turn % 2 else None, wrong=1)
    controller = served.controller
    assert controller.should_run("p", "look", 0.0, draft_s=0.1, cost=0.01).speculate
    assert not controller.should_run("p", "look", 0.0, draft_s=0.1, cost=10.0).speculate


def test_a_sure_draft_runs_however_late_it_comes() -> None:
    served = workload()
    served.turn(1, times=50)
    assert served.controller.should_run("p", "look", 0.0, draft_s=5.0).speculate


def test_a_spent_budget_ends_speculation_and_claims_do_not_spend_it() -> None:
    served = workload(SpeculationConfig(budget=Budget(runs=3)))
    served.turn(1, times=50)
    assert served.samples_drawn == [1] * 50
    served.turn(None, wrong=1, times=4)
    assert served.samples_drawn[-4:] == [1, 1, 1, 0]
    assert served.runs == 53
    assert "runs" in served.controller.should_predict("p", 1, 0.0).reason
    assert "runs" in served.controller.should_run("p", "look", 0.0, draft_s=0.1).reason


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 6)), max_size=40), st.integers(0, 4))
def test_no_more_runs_start_than_the_budget_and_its_refill(
    turns: list[tuple[float, int]], limit: int
) -> None:
    controller = Controller(SpeculationConfig(budget=Budget(runs=limit, per_seconds=10)))
    now, started = 0.0, 0
    for number, (pause, drafts) in enumerate(turns):
        now += pause
        for _ in range(drafts):
            started += controller.start_run(number, "look", now, 0.0) is None
        assert started <= limit * (1 + now / 10) + 1e-6


def test_a_run_that_did_not_start_is_given_back() -> None:
    controller = Controller(SpeculationConfig(budget=Budget(runs=1, seconds=5, money=1.0)))
    controller.on_event(ev.CallMissed(1, "look", 4.0, "not predicted"))
    for _ in range(3):
        assert controller.start_run(1, "look", 0.0, 1.0) is None
        assert controller.start_run(1, "look", 0.0, 0.0) == "the budget of 1 runs is spent"
        controller.cancel_run(1, "look", 1.0)


def test_a_run_whose_expected_seconds_do_not_fit_is_not_started() -> None:
    controller = Controller(SpeculationConfig(budget=Budget(seconds=5)))
    controller.on_event(ev.CallMissed(1, "look", 4.0, "not predicted"))
    assert controller.start_run(1, "look", 0.0, 0.0) is None
    assert controller.start_run(1, "look", 0.0, 0.0) == "the budget of 5 seconds is spent"
    assert controller.start_run(1, "new", 0.0, 0.0) is None  # it is not known how long it takes


def test_what_predictors_charge_counts_against_the_budget() -> None:
    served = workload(SpeculationConfig(budget=Budget(tokens=25)), money=0.01)
    served.turn(1, times=5)
    assert served.samples_drawn == [1, 1, 1, 0, 0]


def test_off_runs_no_predictor_and_shadow_runs_no_tool_but_learns() -> None:
    off = Controller(SpeculationConfig(mode="off"))
    assert not off.should_predict("p", 1, 0.0).speculate
    shadow = workload(SpeculationConfig(mode="shadow"))
    shadow.turn(1, times=30)
    assert shadow.samples_drawn == [1] * 30
    assert shadow.runs == 0
    shadow.turn(None, wrong=1, times=300)
    assert sum(shadow.samples_drawn[-100:]) <= 2


@examples(50)
@given(
    st.lists(st.tuples(st.sampled_from([None, 1, 3, 5]), st.integers(0, 3)), max_size=120),
    st.integers(1, 9),
    st.floats(0.01, 10),
    st.floats(0.0, 10),
)
def test_decisions_are_always_possible_ones(
    turns: list[tuple[int | None, int]], samples: int, generation_s: float, tool_s: float
) -> None:
    served = workload(
        samples=samples, generation_s=generation_s, tool_s=tool_s, draft_s=generation_s / 3, money=0.001
    )
    for right_up_to, wrong in turns:
        served.turn(right_up_to, wrong=wrong)
    assert all(0 <= drawn <= samples for drawn in served.samples_drawn)
    assert served.samples_drawn[:1] == [samples] * min(1, len(turns))


@pytest.mark.parametrize(
    ("tool_s", "right", "pays"),
    [
        # The first turn, and after 1, 2, 4, … turns.
        *((tool_s, right, False) for tool_s in (0.0001, 0.0005) for right in (0.1, 0.5, 0.9)),
        *((tool_s, right, True) for tool_s in (0.5, 2.0, 8.0) for right in (0.5, 0.9)),
    ],
)
def test_tools_quicker_than_the_overhead_are_probed_only(tool_s: float, right: float, pays: bool) -> None:
    served, chance = workload(tool_s=tool_s, generation_s=2.0), random.Random(1)
    for _ in range(200):
        served.turn(1 if chance.random() < right else None)
    assert served.samples_drawn[0] == 1
    assert sum(served.samples_drawn) >= 190 if pays else sum(served.samples_drawn) <= 10


def test_one_turn_in_which_garbage_was_collected_ends_no_speculation() -> None:
    served = workload(tool_s=0.2, generation_s=0.3, shares_cores=False, overhead_s=0.002)
    served.turn(1, times=4)
    served.overhead_s = 2.0
    served.turn(1)
    served.overhead_s = 0.002
    served.turn(1, times=20)
    assert served.samples_drawn == [1] * 25


def test_work_that_takes_more_than_is_saved_is_noticed_within_ten_turns() -> None:
    served = workload(tool_s=0.2, generation_s=0.3, shares_cores=False, overhead_s=0.5)
    served.turn(1, times=40)
    assert sum(served.samples_drawn[10:]) <= 5


@pytest.mark.parametrize("samples", [1, 5])
def test_a_predictor_that_takes_the_cores_of_a_fast_model_stops_after_its_first_turn(samples: int) -> None:
    """The main model takes 10 ms alone and 18 ms beside a draft, which never comes in time."""
    served = workload(tool_s=0.013, samples=samples)
    plain, spent = 0.0, 0.0
    for _ in range(40):
        served.generation_s = 0.018 if served.will_predict() else 0.010
        served.turn(None)
        plain, spent = plain + 0.010 + served.tool_s, spent + served.generation_s + served.tool_s
    assert spent <= 1.02 * plain


@pytest.mark.parametrize(
    ("before", "right", "after", "least"),
    [
        ({"tool_s": 0.0001, "generation_s": 2.0}, 1, {"tool_s": 1.0}, 19),
        ({"generation_s": 0.0005, "draft_s": 0.0004}, 1, {"generation_s": 2.0}, 17),
        ({"generation_s": 0.05}, None, {"generation_s": 2.0}, 18),  # it was always too late
    ],
)
def test_a_tool_or_a_model_that_becomes_slow_is_noticed_within_three_turns(
    before: dict[str, float], right: int | None, after: dict[str, float], least: int
) -> None:
    served = workload(**before)
    served.turn(right, times=400)
    assert sum(served.samples_drawn[1:]) < 30
    vars(served).update(after)
    served.turn(1, times=20)
    assert sum(served.samples_drawn[-20:]) >= least


def test_turns_that_are_never_answered_do_not_fill_the_memory() -> None:
    controller = Controller(SpeculationConfig())
    for turn in range(1000):
        controller.on_event(ev.PredictorStarted(turn, "p", 1))
    assert len(controller._turns) <= 256


def test_turns_before_any_tool_was_called_are_decided_as_well() -> None:
    controller = Controller(SpeculationConfig())
    for number in range(1, 30):
        if controller.should_predict("p", 3, now=float(number)).speculate:
            controller.on_event(ev.PredictorStarted(number, "p", 3))
        controller.on_event(ev.TurnAnswered(number, 1.0, ()))


@pytest.mark.parametrize("shares_cores", [True, False])
def test_only_predictors_that_share_the_models_cores_are_left_out_to_measure_it(shares_cores: bool) -> None:
    served = workload(generation_s=0.02, tool_s=0.005, draft_s=0.001, shares_cores=shares_cores)
    served.turn(1, times=40)
    assert (0 in served.samples_drawn) is shares_cores
    assert served.samples_drawn.count(0) < 15


@pytest.mark.parametrize("draft_s", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("tool_s", [0.4, 1.0])
def test_a_quick_draft_beside_a_slow_model_is_left_out_of_no_turn(draft_s: float, tool_s: float) -> None:
    """Dialogues of a request, one or two calls and an answer; all drafts are right and end in time."""
    for dialogue in range(20):
        served = workload(generation_s=0.8, tool_s=tool_s, draft_s=draft_s, ends=True)
        chance = random.Random(dialogue)
        while served.turns < 16:
            for _ in range(chance.choice([1, 1, 2])):
                served.turn(1)
            served.turn(0)
        assert 0 not in served.samples_drawn


def test_a_draft_that_may_cost_more_than_it_saves_is_still_measured() -> None:
    served = workload(generation_s=0.8, tool_s=0.1, draft_s=0.5, ends=True)
    for _ in range(16):
        served.turn(1)
        served.turn(0)
    assert 1 < served.samples_drawn.count(0) < 12


@pytest.mark.parametrize(("shares_cores", "money"), [(False, 0.0), (True, 0.0), (False, 0.001)])
def test_rare_right_drafts_are_waited_for_where_prediction_costs_little(
    shares_cores: bool, money: float
) -> None:
    served = workload(shares_cores=shares_cores, money=money)
    for _ in range(10):
        served.turn(None, times=40)
        served.turn(None, wrong=1)
        served.turn(1)
    if shares_cores or money:
        assert sum(served.samples_drawn) < 100
    else:
        assert served.samples_drawn == [1] * 420


def test_a_tool_that_is_too_quick_stops_also_a_predictor_that_costs_little() -> None:
    served = workload(tool_s=0.0001, shares_cores=False)
    served.turn(1, times=400)
    assert sum(served.samples_drawn) < 12
