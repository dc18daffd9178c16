"""What the pattern speculator reads conversations with, and what it learns with."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.arguments import LEFT_OUT, Parameter
from agentrt.speculators.pattern.history import Called, Event, Returned, Said, parse_result, read_history
from agentrt.speculators.pattern.memory import Memory, Place
from agentrt.speculators.pattern.text import dates, name_words, shape, times, words
from agentrt.speculators.pattern.values import Values, coerced, key_of, type_of
from agentrt.speculators.pattern.weights import Weights, softmax
from tests.hypothesis_profiles import examples

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_a_result_is_read_as_what_it_is(value: Any) -> None:
    text = json.dumps(value)
    assert parse_result(text) == (value if isinstance(value, (list, dict)) else text)


@given(st.dictionaries(st.text(), json_values, min_size=1), st.floats(0, 1))
def test_a_result_that_was_cut_off_is_read_as_far_as_it_goes(value: dict[str, Any], at: float) -> None:
    text = json.dumps(value)
    found = parse_result(text[: 1 + int(at * (len(text) - 1))])
    if isinstance(found, dict):
        assert list(found) == list(value)[: len(found)]
    else:
        assert not text.startswith(("{}", '{"')) or found == text[: len(found)]


def test_a_cut_list_keeps_its_whole_items() -> None:
    assert parse_result('{"a": [{"id": "x1", "n": 3}, {"id": "x2", "n"') == {
        "a": [{"id": "x1", "n": 3}, {"id": "x2"}]
    }
    assert parse_result("[not JSON]") == "[not JSON]"
    assert parse_result("{'a': True, 'b': None}") == {"a": True, "b": None}


@given(st.lists(st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "id"]), json_values)))
def test_messages_of_any_shape_are_read(messages: list[dict[str, Any]]) -> None:
    read_history(messages)


def test_a_long_conversation_keeps_its_beginning_and_its_end() -> None:
    said = [{"role": "user", "content": str(number)} for number in range(500)]
    events = read_history(said)
    assert len(events) == 80
    assert [event.text for event in events if isinstance(event, Said)][:3] == ["0", "1", "422"]


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


def values(*events: Event) -> Values:
    return Values(events, ["2024"])


def test_values_are_found_with_how_they_came_there() -> None:
    found = values(
        Said('My name is Ada Byron and I look for "red shoes", order #W77', by_model=False),
        Called("find", {"customer": "ada_1"}),
        Returned("find", {"orders": [{"id": "A1", "sum": 3}, {"id": "A2", "sum": 4}], "cards": {}}),
    )
    for expected in ("Ada Byron", "red shoes", "#W77", "ada_1", "A1", 4):
        assert key_of(expected) in found.by_key, expected
    second = found.by_key[key_of("A2")].sources[0]
    assert (second.kind, second.path, second.name, second.place) == ("result", "find.orders[].id", ("id",), 1)
    assert found.by_key[key_of(4)].records == found.by_key[key_of("A2")].records
    assert found.by_key[key_of("ada_1")].sources[0].path == "find.customer"


def test_keys_of_a_table_are_values_and_its_columns_one_path() -> None:
    table = {"card_7": {"source": "card", "id": "card_7"}, "gift_9": {"source": "gift", "id": "gift_9"}}
    found = values(Returned("look", {"methods": table}))
    assert found.by_key[key_of("gift_9")].sources[0].path == "look.methods{key}"
    assert found.by_key[key_of("gift")].sources[0].path == "look.methods{}.source"


@examples(20)
@given(st.lists(st.builds(Returned, st.text(max_size=3), json_values), max_size=6))
def test_any_results_give_a_bounded_number_of_values(results: list[Returned]) -> None:
    huge = Returned("huge", [{"id": number} for number in range(2000)])
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


@given(st.lists(st.floats(-500, 500), min_size=1))
def test_chances_sum_to_one(scores: list[float]) -> None:
    assert math.fsum(softmax(scores)) == pytest.approx(1)


def test_what_is_right_becomes_likelier_until_it_is_likely() -> None:
    weights = Weights({"bad": 3.0})
    options = [["bad"], ["good"], ["other"]]
    for _ in range(60):
        weights.learn(options, {1: 1.0})
    chances = softmax([weights.score(option) for option in options])
    assert chances[1] > 0.8
    weights.learn(options, {0: 0.5, 2: 0.5})
    assert softmax([weights.score(option) for option in options])[1] < chances[1]


def test_the_number_of_features_is_bounded_and_the_oldest_go() -> None:
    weights = Weights({}, max_features=100)
    for number in range(300):
        weights.learn([[f"a{number}"], [f"b{number}"]], {0: 1.0})
    assert len(weights.learned) <= 100
    assert weights.of("a0") == 0.0
    assert weights.of("a299") > 0.0
    assert weights.moved <= weights.learned.keys()


def test_memory_is_bounded() -> None:
    memory = Memory({})
    for number in range(4200):
        memory.remember(f"tool{number}", {"x": number}, [number])
    assert len(memory.places) == len(memory.followers) == 4096
    assert memory.changed_places <= memory.places.keys()
    for number in range(1000):
        memory.remember("tool", {"x": f"value {number}"}, [1])
    place = memory.place("tool", "x")
    assert max(len(place.seen), len(place.shapes), len(place.constants)) <= 128
    assert len(memory.followers[1]) <= 128


def test_only_values_that_come_again_and_are_no_secrets_are_kept() -> None:
    place = Place()
    place.remember("city", "Oslo")
    assert not place.constants
    place.remember("city", "Oslo")
    assert list(place.constants) == ['"Oslo"']
    for name in ("password", "api_key", "auth_token", "client_secret"):
        secret = Place()
        secret.remember(name, "x1")
        secret.remember(name, "x1")
        assert not secret.constants, name


def parameter(schema: dict[str, Any], *, required: bool = True, memory: Memory | None = None) -> Parameter:
    memory = memory or Memory({})
    sight = values(Said("in Oslo or Rome", by_model=False))
    return Parameter(
        "city", "weather", schema, required=required, place=Place(), weights=memory.weights, values=sight,
        calls=(), recalled=(),
    )  # fmt: skip


def test_an_enum_allows_its_own_values_only() -> None:
    options = parameter({"type": "string", "enum": ["Rome", "Paris"]}).options
    assert options.given[:2] == ["Rome", "Paris"]
    assert len(options.given) == 3  # and the unseen
    assert LEFT_OUT in parameter({}, required=False).options.given


@given(st.sampled_from(["Oslo", "Rome", "Bergen"]), st.booleans())
def test_chances_of_an_argument_are_chances(given_value: str, required: bool) -> None:
    memory = Memory({})
    spot = parameter({"type": "string"}, required=required, memory=memory)
    chances = spot.chances(set())
    assert sum(chance for _, chance in chances) <= 1 + 1e-9
    assert chances == sorted(chances, key=lambda each: -each[1])
    spot.learn(given_value, set())
    spot.learn(LEFT_OUT, set())


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "[{" * 20_000, "word " * 20_000, "x: " * 20_000, "{" + "'" * 20_000]
)
def test_hostile_results_are_read_in_bounded_steps(text: str) -> None:
    events = read_history(
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
