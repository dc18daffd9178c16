"""Candidates for an argument, and their probabilities."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.argument import LEFT_OUT, ArgumentModel
from agentrt.speculators.pattern.events import MessageEvent
from agentrt.speculators.pattern.memory import ParameterStats, PatternMemory
from agentrt.speculators.pattern.values import Values


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
