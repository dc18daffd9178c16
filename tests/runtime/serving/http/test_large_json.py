from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.serving.http.strict_json import compact_json, json_pieces

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(), inner, max_size=4)
)


@given(VALUES)
def test_the_pieces_are_the_json(value: Any) -> None:
    assert "".join(json_pieces(value)) == compact_json(value)


def test_no_piece_of_a_long_list_is_long() -> None:
    body = {"choices": [{"logprobs": {"content": [{"token": "a", "bytes": [97]}] * 5000}}]}
    assert max(map(len, json_pieces(body))) < 1000
