"""The OpenAI client speculates only on tools that the request lets the model call."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt import ToolCall, speculable
from agentrt.adapters.openai import report_of, speculate
from agentrt.reports.events import PredictorSkipped, PredictorStarted
from agentrt.testing import ScriptedSpeculator
from tests.adapters.doubles import Decided
from tests.adapters.openai.doubles import RESPONSES_TOOLS, TOOLS, Endpoint
from tests.adapters.stainless.doubles import HI

OTHER: Any = {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}
ONLY_LOOK: Any = {"type": "function", "function": {"name": "look"}}
ONLY_OTHER: Any = {"type": "function", "function": {"name": "other"}}
NOT_OFFERED = "ScriptedSpeculator was not started: the tool is not offered in this turn"


def problems_of(ask: Any) -> tuple[str, ...]:
    """Draft a call of ``look`` beside one request, and return what the report says of it."""

    @speculable
    def look(q: str) -> str:
        return q

    decided = Decided(PredictorStarted, PredictorSkipped)
    predictor = ScriptedSpeculator([ToolCall("look", {"q": "a"})])
    with Endpoint([], gate=decided.gate).client() as plain:
        client = speculate(plain, predictor, tools=[look], observers=[decided])
        ask(client)
        return report_of(client).turns[0].problems


@pytest.mark.parametrize(
    ("tools", "choice", "offered"),
    [
        ([*TOOLS, OTHER], "auto", True),
        ([*TOOLS, OTHER], ONLY_LOOK, True),
        ([OTHER], "auto", False),
        ([*TOOLS, OTHER], ONLY_OTHER, False),
    ],
)
def test_chat_completions_offer_what_tools_and_choice_say(tools: Any, choice: Any, offered: bool) -> None:
    problems = problems_of(
        lambda client: client.chat.completions.create(
            model="m", messages=[HI], tools=tools, tool_choice=choice
        )
    )
    assert problems == (() if offered else (NOT_OFFERED,))


@pytest.mark.parametrize(
    ("choice", "offered"), [("auto", True), ({"type": "function", "name": "other"}, False)]
)
def test_responses_offer_what_tools_and_choice_say(choice: Any, offered: bool) -> None:
    other: Any = {"type": "function", "name": "other", "parameters": {"type": "object"}, "strict": False}
    problems = problems_of(
        lambda client: client.responses.create(
            model="m", input=[HI], tools=[*RESPONSES_TOOLS, other], tool_choice=choice
        )
    )
    assert problems == (() if offered else (NOT_OFFERED,))
