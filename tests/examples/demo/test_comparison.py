import asyncio
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from agentrt.examples.demo.comparison import is_answered
from agentrt.examples.personal_assistant import MOST_MODEL_CALLS, ask, assistant_agent
from tests.examples.test_personal_assistant import Recorder, Scripted


@tool
def look(word: str) -> str:
    """Look something up."""
    return f"{word} is a word"


@pytest.mark.parametrize(
    ("script", "answered"),
    [
        ([("look", {"word": "roof"}), "A roof is a word."], True),
        ([*[("look", {"word": "roof"})] * (MOST_MODEL_CALLS - 1), "A roof is a word."], True),
        ([("look", {"word": "roof"})], False),  # for ever
        ([("look", {"word": "roof"}), ""], False),
    ],
)
def test_a_turn_is_answered_if_the_model_ends_it_with_a_text(script: list[Any], answered: bool) -> None:
    agent = assistant_agent(Scripted(script=script), [look])
    messages = asyncio.run(ask(agent, [HumanMessage("What is a roof?")], Recorder()))
    assert is_answered(messages) is answered
