"""What is learned: the memory, the online regression, and the candidates for an argument."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.argument import LEFT_OUT, ArgumentModel
from agentrt.speculators.pattern.events import MessageEvent
from agentrt.speculators.pattern.memory import ParameterStats, PatternMemory
from agentrt.speculators.pattern.values import Values
from agentrt.speculators.pattern.weights import Weights, softmax

# What is learned, and what of it is kept.


def test_memory_is_bounded() -> None:
    memory = PatternMemory({})
    for number in range(4200):
        memory.count(f"tool{number}", {"x": number}, [number])
    assert len(memory.parameters) == len(memory.followers) == 4096
    assert memory.changed_parameters <= memory.parameters.keys()
    for number in range(1000):
        memory.count("tool", {"x": f"value {number}"}, [1])
    stats = memory.parameter("tool", "x")
    assert max(len(stats.seen), len(stats.shapes), len(stats.constants)) <= 128
    assert len(memory.followers[1]) <= 128


def test_only_values_that_come_again_and_are_no_secrets_are_kept() -> None:
    stats = ParameterStats()
    stats.count("city", "Oslo")
    assert not stats.constants
    stats.count("city", "Oslo")
    assert list(stats.constants) == ['"Oslo"']
    for name in ("password", "api_key", "auth_token", "client_secret"):
        secret = ParameterStats()
        secret.count(name, "x1")
        secret.count(name, "x1")
        assert not secret.constants, name


# The online regression.


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


# Candidates for an argument, and their probabilities.


def argument(
    schema: dict[str, Any], *, required: bool = True, memory: PatternMemory | None = None
) -> ArgumentModel:
    return ArgumentModel(
        "city",
        "weather",
        schema,
        required=required,
        stats=ParameterStats(),
        weights=(memory or PatternMemory({})).weights,
        values=Values([MessageEvent("in Oslo or Rome", by_model=False)], ["2024"]),
        calls=(),
        recalled=(),
    )


def test_an_enum_allows_its_own_values_only() -> None:
    candidates = argument({"type": "string", "enum": ["Rome", "Paris"]}).candidates
    assert candidates.arguments[:2] == ["Rome", "Paris"]
    assert len(candidates.arguments) == 3  # and the unseen
    assert LEFT_OUT in argument({}, required=False).candidates.arguments


@given(st.sampled_from(["Oslo", "Rome", "Bergen"]), st.booleans())
def test_probabilities_of_an_argument_are_sorted_and_sum_to_at_most_one(
    given_value: str, required: bool
) -> None:
    memory = PatternMemory({})
    model = argument({"type": "string"}, required=required, memory=memory)
    probabilities = model.probabilities(set())
    assert sum(probability for _, probability in probabilities) <= 1 + 1e-9
    assert probabilities == sorted(probabilities, key=lambda each: -each[1])
    model.learn(given_value, set())
    model.learn(LEFT_OUT, set())
