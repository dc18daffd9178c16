"""Values found in a conversation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.events import CallEvent, Event, MessageEvent, ResultEvent, read_events
from agentrt.speculators.pattern.values import Values, coerced, key_of, type_of
from tests.hypothesis_profiles import examples
from tests.speculators.pattern.strategies import json_values


def values(*events: Event) -> Values:
    return Values(events, ["2024"])


def test_values_are_found_with_how_they_came_there() -> None:
    found = values(
        MessageEvent('My name is Ada Byron and I look for "red shoes", order #W77', by_model=False),
        CallEvent("find", {"customer": "ada_1"}),
        ResultEvent("find", {"orders": [{"id": "A1", "sum": 3}, {"id": "A2", "sum": 4}], "cards": {}}),
    )
    for expected in ("Ada Byron", "red shoes", "#W77", "ada_1", "A1", 4):
        assert key_of(expected) in found.by_key, expected
    second = found.by_key[key_of("A2")].sources[0]
    assert (second.kind, second.path, second.name, second.position) == (
        "result",
        "find.orders[].id",
        ("id",),
        1,
    )
    assert found.by_key[key_of(4)].records == found.by_key[key_of("A2")].records
    assert found.by_key[key_of("ada_1")].sources[0].path == "find.customer"


def test_keys_of_a_table_are_values_and_its_columns_one_path() -> None:
    table = {"card_7": {"source": "card", "id": "card_7"}, "gift_9": {"source": "gift", "id": "gift_9"}}
    found = values(ResultEvent("look", {"methods": table}))
    assert found.by_key[key_of("gift_9")].sources[0].path == "look.methods{key}"
    assert found.by_key[key_of("gift")].sources[0].path == "look.methods{}.source"


@examples(20)
@given(st.lists(st.builds(ResultEvent, st.text(max_size=3), json_values), max_size=6))
def test_any_results_give_a_bounded_number_of_values(results: list[ResultEvent]) -> None:
    huge = ResultEvent("huge", [{"id": number} for number in range(2000)])
    assert len(values(*results, huge).by_key) <= 600


@pytest.mark.parametrize(
    ("value", "wanted", "expected"),
    [
        ("12", "integer", 12),
        ("1,200.5", "number", 1200.5),
        (7, "string", "7"),
        (7, "number", 7),
        ("x", "integer", None),
        (True, "integer", None),
        ("nan", "number", None),
        (["a"], "array", ["a"]),
        ("a", "array", None),
    ],
)
def test_values_become_the_type_that_is_wanted(value: Any, wanted: str, expected: Any) -> None:
    assert coerced(value, wanted) == expected
    assert type_of(expected) in (wanted, "null", "integer")


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "[{" * 20_000, "word " * 20_000, "x: " * 20_000, "{" + "'" * 20_000]
)
def test_hostile_results_are_read_in_bounded_steps(text: str) -> None:
    events = read_events(
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": text},
        ]
    )
    longest = max((len(key) for key in values(*events).by_key), default=0)
    assert longest <= 500
