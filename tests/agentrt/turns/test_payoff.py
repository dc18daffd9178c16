"""What a predictor costs: the model's time beside it, against its time in neighbouring turns without."""

from __future__ import annotations

from agentrt.turns.payoff import PredictionCost


def cost_of(*turns: tuple[bool, float]) -> PredictionCost:
    cost = PredictionCost()
    for predicted, generation_s in turns:
        cost.add_turn(generation_s, predicted=predicted)
    return cost


def test_turns_without_a_predictor_count_only_beside_one_with_it() -> None:
    idle = [(False, 0.008)] * 22
    assert not cost_of(*idle).needs_a_turn_without
    assert not cost_of((True, 0.014), *idle).needs_a_turn_without
    assert cost_of((True, 0.014), *idle, (True, 0.012)).needs_a_turn_without


def test_a_slowdown_is_measured_until_it_is_certain() -> None:
    cost = PredictionCost()
    for _ in range(40):
        predicted = not cost.needs_a_turn_without
        cost.add_turn(0.012 if predicted else 0.008, predicted=predicted)
    assert 0.003 < cost.seconds - 0.001 < 0.004
