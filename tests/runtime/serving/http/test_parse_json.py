"""What a body of JSON may hold, and JSON that is written in pieces."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.serving.http import strict_json
from agentrt.runtime.serving.http.strict_json import compact_json, has_more_values, json_pieces, parse_json


def values(scalars: st.SearchStrategy[Any], names: st.SearchStrategy[str], size: int = 4) -> Any:
    def around(inner: Any) -> Any:
        return st.lists(inner, max_size=size) | st.dictionaries(names, inner, max_size=4)

    return st.recursive(scalars, around, max_leaves=20)


NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.text("e1.+-x", max_size=8)
MARKS = st.text(st.sampled_from('\\"[]{},: é\nx'), max_size=8)
BRIEF = MARKS | st.integers(-(10**9), 10**9) | st.none()  # a longer number counts as several values
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TOO_LARGE = ["1e999", "-1e999", "1E+309", "0.1e0400", "9" * 400 + ".0", "1" + "0" * 250 + "e99", "NaN"]


def finite(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


@given(values(NUMBERS, st.text('e9"\\', max_size=4)))
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


@given(values(BRIEF, MARKS), st.booleans(), st.sampled_from([1, 3, 1 << 16]))
def test_values_are_counted_without_parsing(value: Any, ascii: bool, scanned_at_once: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    outside = re.sub(r'"(?:\\.|[^"\\])*"', "", text)
    count = 1 + sum(map(outside.count, "[{,:"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "_SCANNED_AT_ONCE", scanned_at_once)
        assert has_more_values(text.encode(), count - 1)
        assert not has_more_values(text.encode(), count)


@pytest.mark.parametrize("text", [b"", b'"', b'"' * 200_000, b"\\", b'\\"[', b'"[[[['])
def test_texts_that_are_no_json(text: bytes) -> None:
    assert not has_more_values(text, 2)


@given(values(SCALARS, st.text(), size=40))
def test_the_pieces_are_the_json(value: Any) -> None:
    assert "".join(json_pieces(value)) == compact_json(value)


def test_no_piece_of_a_long_list_is_long() -> None:
    body = {"choices": [{"logprobs": {"content": [{"token": "a", "bytes": [97]}] * 5000}}]}
    assert max(map(len, json_pieces(body))) < 1000
