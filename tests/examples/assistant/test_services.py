"""Imitated services, and messages as short lines."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from agentrt.errors import ConfigurationError
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.services import Latencies, look_up, weather_in
from agentrt.examples.assistant.view import describe


def test_a_city_always_has_the_same_weather() -> None:
    oslo = weather_in("Oslo")
    assert oslo == weather_in(" Oslo")
    assert oslo["city"] == "Oslo"
    assert isinstance(oslo["temperature"], int)
    assert isinstance(oslo["sky"], str)
    assert {weather_in(city)["sky"] for city in ("Oslo", "Lima", "Cairo", "Perth")} != {oslo["sky"]}
    with pytest.raises(ToolError, match="the weather service says: name a city"):
        weather_in(" ")


def test_the_page_that_matches_best_is_found() -> None:
    title, text = look_up("kayak rental")
    assert title == "Kayak rental Bergen"
    assert "35 euros a day" in text
    assert look_up("zeppelin") == ("nothing found", "Try other words.")


@pytest.mark.parametrize("delay", [-1, 61, float("nan")])
def test_an_impossible_delay_is_a_configuration_error(delay: float) -> None:
    with pytest.raises(ConfigurationError, match="choose between 0 and 60 seconds"):
        Latencies(weather=delay)
    assert Latencies(0.1, 0.2, 0.4).times(2) == Latencies(0.2, 0.4, 0.8)


CALL = AIMessage("", tool_calls=[{"name": "search_notes", "args": {"query": "[bold]x", "n": 3}, "id": "c1"}])
RESULT = ToolMessage('[{"id": "n1"}]', tool_call_id="c1")
ANSWER = AIMessage("All is well.")


def test_a_message_in_short() -> None:
    assert describe(CALL) == ['* search_notes(query="[bold]x", n=3)']
    assert describe(RESULT) == ['= [{"id": "n1"}]']
    assert describe(ANSWER) == ["All is well."]
    assert describe(AIMessage("Let me see.", tool_calls=CALL.tool_calls)) == [*describe(CALL), "Let me see."]
    assert len(describe(ToolMessage("x" * 1000, tool_call_id="c1"))[0]) < 100


def test_no_control_character_of_a_model_or_a_tool_is_left() -> None:
    escapes = "\x1b]0;title\x07\x1b[2J\x9b31mred\u202eknil"
    shown = "\u241b]0;title\u2407\u241b[2J\\x9b31mred\\u202eknil"
    assert describe(ToolMessage(escapes, tool_call_id="c1")) == [f"= {shown}"]
    assert describe(AIMessage(escapes)) == [shown]
    (line,) = describe(
        AIMessage("", tool_calls=[{"name": "read\x1b[2J", "args": {"id": escapes}, "id": "c"}])
    )
    assert line.isprintable()
    assert describe(ToolMessage("a\n> b", tool_call_id="c1")) == ["= a > b"]
