"""What is read off a conversation: events, tool outputs, words and values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.events import CallEvent, Event, MessageEvent, ResultEvent, read_events
from agentrt.speculators.pattern.text import dates, name_words, shape, times, words
from agentrt.speculators.pattern.tool_output import parse_tool_output
from agentrt.speculators.pattern.values import Values, coerced, key_of, type_of
from tests.hypothesis_profiles import examples

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


# Conversations read as events.


@given(st.lists(st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "id"]), json_values)))
def test_messages_of_any_shape_are_read(messages: list[dict[str, Any]]) -> None:
    read_events(messages)


def test_a_long_conversation_keeps_its_beginning_and_its_end() -> None:
    said = [{"role": "user", "content": str(number)} for number in range(500)]
    events = read_events(said)
    assert len(events) == 80
    assert [event.text for event in events if isinstance(event, MessageEvent)][:3] == ["0", "1", "422"]


# Parsing tool outputs, whole, cut off or hostile.


@given(json_values)
def test_a_result_is_read_as_what_it_is(value: Any) -> None:
    text = json.dumps(value)
    assert parse_tool_output(text) == (value if isinstance(value, (list, dict)) else text)


@given(st.dictionaries(st.text(), json_values, min_size=1), st.floats(0, 1))
def test_a_result_that_was_cut_off_is_read_as_far_as_it_goes(value: dict[str, Any], at: float) -> None:
    text = json.dumps(value)
    found = parse_tool_output(text[: 1 + int(at * (len(text) - 1))])
    if isinstance(found, dict):
        assert list(found) == list(value)[: len(found)]
    else:
        assert not text.startswith(("{}", '{"')) or found == text[: len(found)]


def test_a_cut_list_keeps_its_whole_items() -> None:
    assert parse_tool_output('{"a": [{"id": "x1", "n": 3}, {"id": "x2", "n"') == {
        "a": [{"id": "x1", "n": 3}, {"id": "x2"}]
    }
    assert parse_tool_output("[not JSON]") == "[not JSON]"
    assert parse_tool_output("{'a': True, 'b': None}") == {"a": True, "b": None}


# Words, shapes, dates and times in text.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on May 24th", ["2023-05-24"]),
        ("the 3rd of March, 2021", ["2021-03-03"]),
        ("Sept. 5", ["2023-09-05"]),
        ("2024-2-9 to 2024/12/31", ["2024-02-09", "2024-12-31"]),
        ("may I go on the 40th of May 99?", []),
        ("nothing", []),
    ],
)
def test_dates_are_written_out(text: str, expected: list[str]) -> None:
    assert [date for _, date, _ in dates(text, ("2023",))] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("at 2pm", ["14:00"]), ("12 a.m.", ["00:00"]), ("9:05 AM and 23:59", ["09:05", "23:59"]), ("25:00", [])],
)
def test_times_are_written_out(text: str, expected: list[str]) -> None:
    assert [time for _, time in times(text)] == expected


def test_words_of_names_and_requests_meet() -> None:
    assert name_words("reservationIds") == name_words("reservation_id") == name_words("reservation-id")
    assert set(words("Please list my reservations")) & set(name_words("list_reservations"))


@given(st.text())
def test_every_text_has_a_short_shape(text: str) -> None:
    assert len(shape(text)) <= 16


def test_alike_identifiers_have_one_shape() -> None:
    assert shape("4WQ150") == shape("ZFA04Y") != shape("HATHAT0")
    assert shape("mia_li_3668") == shape("raj_brown_5782")
    assert shape("2024-05-20") == shape("1999-12-01")


# Values found in a conversation.


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
