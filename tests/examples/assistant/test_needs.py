"""What a message needs, as the model says it in JSON, and what needs no model."""

import json
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from agentrt.examples.assistant.needs import needs_of
from tests.patience import in_event_loop


class Says(BaseChatModel):
    """Says the same to every request."""

    said: str
    seen: list[tuple[list[BaseMessage], dict[str, Any]]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "says"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.seen.append((messages, options))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.said))])


@in_event_loop
async def test_the_model_says_it() -> None:
    model = Says(said='{"needs": ["weather", "calendar"]}')
    assert await needs_of(model, "how warm is it, and what is on?") == ["weather", "calendar"]
    ((messages, options),) = model.seen
    assert messages[-1].text == "how warm is it, and what is on?"
    enum = json.dumps(options["response_format"])
    assert all(need in enum for need in ("notes", "calendar", "mail", "files", "weather", "web", "talk"))


@in_event_loop
async def test_what_is_cut_off_is_talk() -> None:
    assert await needs_of(Says(said='{"needs": ["wea'), "hm") == ["talk"]


IMPOSSIBLE = [
    "send a mail to Anna", "Could you delete that note?", "please book a table", "remind me to call mum",
    "write an email to my boss", "Ok, please cancel the lunch", "call a taxi",
    "fwd Ann's mail to Ben", "mail Ann that I am late", "shoot Ann an email", "book uber for 6",
    "the mail from Ann can be thrown away", "trash that mail from Ann", "write back to Ann",
    "in my cake recipe please change the eggs to three", "clear everything off tomorrow",
    "alarm at 6:10 pls",
    "transfer 20 euros to Ann", "Get a taxi booked for six", "text Ann that I am late",
]  # fmt: skip
OTHERS = [
    "write a note: call mum", "what does the order say?", "read the mail about the booking",
    "what is my bank account number?", "is my flight booked?", "have tickets arrived by mail?",
    "write down what is in the file",
]  # fmt: skip


@pytest.mark.parametrize("message", [*IMPOSSIBLE, *OTHERS])
def test_the_model_is_asked_only_of_what_some_tool_can_do(message: str) -> None:
    @in_event_loop
    async def ask() -> None:
        model = Says(said='{"needs": ["notes"]}')
        assert await needs_of(model, message) == ["notes" if message in OTHERS else "impossible"]
        assert len(model.seen) == (message in OTHERS)

    ask()


@in_event_loop
async def test_a_follow_up_is_shown_what_was_before() -> None:
    model = Says(said='{"needs": ["calendar"]}')
    await needs_of(model, "and tomorrow?", "what is on today?")
    shown = [message.text for message in model.seen[-1][0][-3:]]
    assert shown == ["what is on today?", '{"needs": ["calendar"]}', "and tomorrow?"]
    await needs_of(model, "good morning", "what is on today?")
    assert model.seen[-1][0][-3].text != "what is on today?"
