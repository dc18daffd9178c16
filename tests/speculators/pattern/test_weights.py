"""The online regression."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.weights import Weights, softmax


@given(st.lists(st.floats(-500, 500), min_size=1))
def test_probabilities_sum_to_one(scores: list[float]) -> None:
    assert math.fsum(softmax(scores)) == pytest.approx(1)


def test_what_is_right_becomes_likelier_until_it_is_likely() -> None:
    weights = Weights({"bad": 3.0})
    options = [["bad"], ["good"], ["other"]]
    for _ in range(60):
        weights.learn(options, {1: 1.0})
    probabilities = softmax([weights.score(option) for option in options])
    assert probabilities[1] > 0.8
    weights.learn(options, {0: 0.5, 2: 0.5})
    assert softmax([weights.score(option) for option in options])[1] < probabilities[1]


def test_the_number_of_features_is_bounded_and_the_oldest_go() -> None:
    weights = Weights({}, max_features=100)
    for number in range(300):
        weights.learn([[f"a{number}"], [f"b{number}"]], {0: 1.0})
    assert len(weights.learned) <= 100
    assert weights.of("a0") == 0.0
    assert weights.of("a299") > 0.0
    assert weights.changed <= weights.learned.keys()
