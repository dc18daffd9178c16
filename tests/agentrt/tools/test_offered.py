"""Which tools a request offers, in the shapes of several providers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.tools.restrictions import offered_tools

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"properties": {"name": {}}}}}
SEND = {"type": "function", "name": "send", "parameters": {"type": "object"}}


def plain(q: str) -> None: ...


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ([], set()),
        ([LOOK, SEND], {"look", "send"}),
        ([{"name": "look", "input_schema": {}}, {"type": "web_search"}], {"look", "web_search"}),
        ([{"function_declarations": [{"name": "look"}, {"name": "send"}]}], {"look", "send"}),
        ([{"toolSpec": {"name": "look", "inputSchema": {"json": {"title": "x"}}}}], {"look"}),
        ([{"title": "look", "type": "object", "properties": {}}], {"look"}),
        (["look", plain, SimpleNamespace(name="send")], {"look", "plain", "send"}),
        ([LOOK, 7], None),
        ([{}], None),
        ("look", None),
        (None, None),
    ],
)
def test_names_are_read_in_any_shape(tools: Any, names: set[str] | None) -> None:
    assert offered_tools(tools) == names


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        *(
            (choice, {"look", "send"})
            for choice in (None, "", True, "auto", "any", "required", {"type": "any"})
        ),
        *((choice, set()) for choice in ("none", {"type": "none"})),
        ("send", {"send"}),
        ({"type": "function", "function": {"name": "send"}}, {"send"}),
        ({"type": "function", "name": "send"}, {"send"}),
        ({"type": "tool", "name": "send"}, {"send"}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "send"}]},
            {"send"},
        ),
        ({"function_calling_config": {"mode": "ANY", "allowed_function_names": ["send"]}}, {"send"}),
    ],
)
def test_a_choice_offers_all_none_or_the_tool_that_it_names(choice: Any, names: set[str]) -> None:
    assert offered_tools([LOOK, SEND], choice) == names
