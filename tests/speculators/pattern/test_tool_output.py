"""Parsing tool outputs, whole, cut off or hostile."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.tool_output import parse_tool_output
from tests.speculators.pattern.strategies import json_values


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
