"""What a body of JSON may hold."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.serving.http.strict_json import parse_json

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("e1.+-x", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('e9"\\', max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
TOO_LARGE = ["1e999", "-1e999", "1E+309", "0.1e0400", "9" * 400 + ".0", "1" + "0" * 250 + "e99", "NaN"]


def finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@given(VALUES)
def test_values_of_finite_numbers_and_no_others(value: Any) -> None:
    data = json.dumps(value).encode()
    if finite(value):
        assert parse_json(data) == value
    else:
        with pytest.raises(ValueError, match=r"."):
            parse_json(data)


@pytest.mark.parametrize("number", TOO_LARGE)
@pytest.mark.parametrize("around", ["%s", "[[1, %s]]", '{"a": [{"b": %s}]}', '{"\\"": "1e999", "c": %s}'])
def test_a_number_that_is_not_finite_is_found_anywhere(number: str, around: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json((around % number).encode())


@pytest.mark.parametrize("text", ['"1e999"', '["Infinity", 1e308]', "1e-999", "0e999", "9" * 300])
def test_what_only_looks_like_one_is_kept(text: str) -> None:
    assert parse_json(text.encode()) == json.loads(text)
