"""Canonical keys: equal for equal calls only, refused where they would be ambiguous."""

from __future__ import annotations

import datetime
import enum
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, TypeAdapter

from agentrt.calls import MAX_KEY_CHARACTERS, canonical_key
from agentrt.errors import InvalidRequestError

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(), values, max_size=4)


@given(st.text(), arguments, st.randoms())
def test_the_order_of_keys_does_not_matter(name: str, given_arguments: dict[str, Any], random: Any) -> None:
    items = list(given_arguments.items())
    random.shuffle(items)
    assert canonical_key(name, dict(items)) == canonical_key(name, given_arguments)


@given(st.tuples(st.text(), arguments), st.tuples(st.text(), arguments))
def test_different_calls_have_different_keys(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    same = repr_sorted(one) == repr_sorted(other)
    assert (canonical_key(*one) == canonical_key(*other)) == same


def repr_sorted(call: tuple[str, Any]) -> str:
    return json.dumps(call, sort_keys=True)


@given(st.text(), arguments)
def test_a_key_survives_a_trip_over_the_wire(name: str, given_arguments: dict[str, Any]) -> None:
    assert canonical_key(name, json.loads(json.dumps(given_arguments))) == canonical_key(
        name, given_arguments
    )


def test_validation_decides_whether_1_is_1_0() -> None:
    assert canonical_key("f", {"x": 1}) != canonical_key("f", {"x": 1.0})
    for kind in (int, float):
        adapter = TypeAdapter(kind)
        assert canonical_key("f", {"x": adapter.validate_python(1)}) == canonical_key(
            "f", {"x": adapter.validate_python(1.0)}
        )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], (1, 2)),
        ([[1]], [(1,)]),
        ({1}, {"set": [1]}),
        ((1,), {"tuple": [1]}),
        ((1,), {":tuple": [1]}),
        ({1: 2}, {"int:1": 2}),
        ({"a:b": 1}, {"str:a:b": 1}),
        (b"a", {"bytes": "61"}),
        (True, 1),
        ({1: 0}, {"1": 0}),
    ],
)
def test_values_that_a_tool_can_distinguish_have_different_keys(one: Any, other: Any) -> None:
    assert canonical_key("f", {"x": one}) != canonical_key("f", {"x": other})


def test_a_schema_with_tuples_makes_one_of_every_list() -> None:
    adapter = TypeAdapter(tuple[int, ...])
    of_json, of_python = (adapter.validate_python(value) for value in ([1, 2], (1, 2)))
    assert canonical_key("f", {"x": of_json}) == canonical_key("f", {"x": of_python})


class Colour(enum.Enum):
    RED = 1


class Range(BaseModel):
    low: int = 0
    hidden: str = Field(default="", exclude=True)


def test_validated_values_have_keys() -> None:
    given_arguments = {
        "range": Range(),
        "day": datetime.date(2026, 1, 2),
        "path": Path("a/b"),
        "colour": Colour.RED,
        "set": {"b", "a"},
        "bytes": b"\xff",
    }
    assert canonical_key("f", given_arguments) == canonical_key("f", {**given_arguments, "set": {"a", "b"}})


def test_fields_hidden_from_serialisation_count() -> None:
    assert canonical_key("f", {"r": Range(hidden="a")}) != canonical_key("f", {"r": Range(hidden="b")})


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [-float("inf")],
        pytest.param(10**5000, id="5001 digits"),
        object(),
        SecretStr("x"),
        1j,
    ],
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="arguments"):
        canonical_key("f", {"x": value})


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "problem"), [(LOOP, "nested deeper"), ("y" * MAX_KEY_CHARACTERS, "by reference")]
)
def test_what_is_too_deep_or_too_long_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        canonical_key("f", {"x": value})
