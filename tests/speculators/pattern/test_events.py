"""Conversations read as events."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrt.speculators.pattern.events import MessageEvent, read_events
from tests.speculators.pattern.strategies import json_values


@given(st.lists(st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "id"]), json_values)))
def test_messages_of_any_shape_are_read(messages: list[dict[str, Any]]) -> None:
    read_events(messages)


def test_a_long_conversation_keeps_its_beginning_and_its_end() -> None:
    said = [{"role": "user", "content": str(number)} for number in range(500)]
    events = read_events(said)
    assert len(events) == 80
    assert [event.text for event in events if isinstance(event, MessageEvent)][:3] == ["0", "1", "422"]
