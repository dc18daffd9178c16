"""Tools bound to a speculating model: made once while an agent binds the same tools in every turn."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.adapters.langchain import speculate
from agentrt.adapters.langchain.speculation.bound_tools import LastBoundTools
from agentrt.testing import ScriptedSpeculator
from tests.adapters.doubles import ScriptedChat
from tests.adapters.langchain.graphs import THREE, async_tool

LOOK: dict[str, Any] = {"type": "function", "function": {"name": "look", "parameters": {}}}


def test_the_same_tools_are_bound_once() -> None:
    last, look = LastBoundTools(), async_tool(0, [])
    bound = last.bound([look])
    assert last.bound([look]) is last.bound((look,), None) is bound
    assert bound.speculable["look"] is look.__speculable__
    look.description = "Look at it."
    assert last.bound([look]).schemas[0]["function"]["description"] == "Look at it."


def test_other_tools_or_another_choice_are_bound_anew() -> None:
    last, tools = LastBoundTools(), [async_tool(0, [])]
    bound = last.bound(tools)
    tools.append(async_tool(0, []))
    assert len(bound.given) == 1
    others: list[tuple[list[Any], Any]] = [
        (tools[:1], "none"),
        (tools[1:], None),
        (tools[:1], {"type": "tool", "name": "look"}),
        ([LOOK], None),  # a mapping may have changed
    ]
    for each, choice in others:
        assert last.bound(each, choice) is not bound
    assert last.bound(*others[-1]) is not last.bound(*others[-1])
    assert last.bound(*others[-2]) is not last.bound(*others[-2])


def test_what_langchain_keeps_of_a_model_for_traces_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    to_json = ScriptedChat.to_json

    def noted(model: Any) -> Any:
        made.append(model)
        return to_json(model)

    monkeypatch.setattr(ScriptedChat, "to_json", noted)
    model = speculate(ScriptedChat(script=THREE, delay=0), ScriptedSpeculator())
    look = async_tool(0, [])
    for _ in range(5):
        bound: Any = model.bind_tools([look])
        assert bound.bound._serialized
    assert len(made) == 1
