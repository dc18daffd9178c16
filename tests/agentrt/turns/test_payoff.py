"""What a predictor costs: the model's time beside it, against its time in neighbouring turns without."""

from __future__ import annotations

import itertools

from agentrt.turns.payoff import PredictionCost, Probes


def cost_of(*turns: tuple[bool, float]) -> PredictionCost:
    cost = PredictionCost()
    for predicted, generation_s in turns:
        cost.add_turn(generation_s, predicted=predicted)
    return cost


def test_turns_without_a_predictor_count_only_beside_one_with_it() -> None:
    idle = [(False, 0.008)] * 22
    assert not cost_of(*idle).needs_a_turn_without(0.0)
    assert not cost_of((True, 0.014), *idle).needs_a_turn_without(0.0)
    assert cost_of((True, 0.014), *idle, (True, 0.012)).needs_a_turn_without(0.0)


def test_one_turn_at_a_time_measures_until_it_is_answered_or_overtaken() -> None:
    cost = cost_of((True, 0.014))
    for _ in range(2):
        assert cost.needs_a_turn_without(0.0)
        cost.begin_turn_without()
        for _ in range(16):
            assert not cost.needs_a_turn_without(0.0)
            cost.note_answer(predicted=True)
    cost.begin_turn_without()
    cost.note_answer(predicted=False)
    assert cost.needs_a_turn_without(0.0)


def test_a_slowdown_is_measured_until_it_is_certain() -> None:
    cost = PredictionCost()
    for _ in range(40):
        predicted = not cost.needs_a_turn_without(0.0)
        cost.add_turn(0.012 if predicted else 0.008, predicted=predicted)
    assert 0.003 < cost.seconds - 0.001 < 0.004


def test_probes_cost_at_most_half_a_percent_of_the_models_time() -> None:
    for cost_s, generation_s in ((0.01, 0.01), (0.001, 0.01), (0.5, 0.01), (0.1, 5.0)):
        probes = Probes()
        turns = 20_000
        made = sum(probes.due(cost_s, generation_s, could_save_s=0.0) for _ in range(turns))
        assert made >= 1
        assert made * cost_s <= 0.0051 * turns * generation_s + cost_s


def test_free_probes_become_rarer_and_never_stop() -> None:
    probes = Probes()
    due = [turn for turn in range(3000) if probes.due(0.0, 1.0, could_save_s=0.0)]
    gaps = [after - before for before, after in itertools.pairwise(due)]
    assert gaps[:4] == [3, 5, 9, 17]
    assert max(gaps) == 257
