"""The assistant around a scripted model: which calls it is asked for, and what is shown of its answers."""

import asyncio
import contextlib
import datetime as dt
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from agentrt.examples.assistant.checked_model import CheckedModel
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.services import Latencies
from agentrt.examples.assistant.steering import StatedResults, Steering
from agentrt.examples.personal_assistant import ask, assistant_agent, assistant_tools

WEDNESDAY = dt.date(2026, 11, 18)
NOON = dt.datetime.combine(WEDNESDAY, dt.time(12, 5))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PersonalData]:
    folder: Path = tmp_path_factory.mktemp("sample") / "data"
    write_sample_data(folder, WEDNESDAY)
    with contextlib.closing(PersonalData.open(folder, today=lambda: WEDNESDAY)) as opened:
        yield opened


class Scripted(BaseChatModel):
    """Says that a message needs ``needs``, then what its script says: a text, or a pair that is a call."""

    needs: list[str]
    script: list[Any]
    offered: list[list[str]] = Field(default_factory=list)
    """Names of the tools of each request that is not about needs."""
    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self.bind(tools=[tool.name for tool in tools], **options)

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        if "response_format" in options:
            return ChatResult(
                generations=[ChatGeneration(message=AIMessage(json.dumps({"needs": self.needs})))]
            )
        self.offered.append(options.get("tools", []))
        self.prompts.append(messages)
        said = self.script.pop(0)
        calls = (
            []
            if isinstance(said, str)
            else [{"name": said[0], "args": said[1], "id": f"c{len(self.prompts)}"}]
        )
        message = AIMessage(
            said if isinstance(said, str) else "",
            tool_calls=calls,
            response_metadata={"finish_reason": "stop"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        message: Any = self._generate(messages, **options).generations[0].message
        for word in message.text.split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="", tool_calls=message.tool_calls, response_metadata={"finish_reason": "stop"}
            )
        )


class Shown:
    """What a person sees of a turn."""

    def __init__(self) -> None:
        self.text = ""

    def token(self, text: str) -> None:
        self.text += text

    def message(self, message: AnyMessage) -> None:
        pass


def take_turns(
    model: Scripted, data: PersonalData, *questions: str, around: Any = None
) -> tuple[list[AnyMessage], Shown]:
    """Ask one question after the other; return the messages of the last turn, and what was shown of all."""
    around = around or Steering(model, lambda: NOON)
    agent = assistant_agent(model, assistant_tools(data, Latencies(0, 0, 0), web=True), [around])
    history: list[AnyMessage] = []
    added: list[AnyMessage] = []
    shown = Shown()
    for question in questions:
        history.append(HumanMessage(question))
        added = asyncio.run(ask(agent, history, shown))
        history += added
    return added, shown


def test_small_talk_has_no_tools(data: PersonalData) -> None:
    model = Scripted(needs=["talk"], script=["Good morning! How are you?"])
    (answer,), shown = take_turns(model, data, "good morning")
    assert answer.text.strip() == shown.text.strip() == "Good morning! How are you?"
    assert model.offered == [[]]


def test_only_the_tools_that_are_needed_are_offered_and_lists_are_stated_whole(data: PersonalData) -> None:
    model = Scripted(needs=["calendar"], script=[("list_events", {"date": "2023-10-05"})])
    messages, _ = take_turns(model, data, "what is on tomorrow?")
    assert model.offered == [["list_events", "add_event"]]
    assert messages[0].tool_calls[0]["args"] == {"date": "tomorrow"}  # type: ignore[union-attr]
    stated = messages[-1].text
    assert stated.startswith("On your calendar tomorrow, Thursday, November 19: ")
    assert all(event.title in stated for event in data.calendar.events_on("tomorrow"))


def test_what_a_search_finds_is_read(data: PersonalData) -> None:
    note = data.notes.all()[0]
    script = [("search_notes", {"query": note.title}), ("read_note", {"id": note.id})]
    model = Scripted(needs=["notes"], script=script)
    messages, _ = take_turns(model, data, f"what does my note about {note.title} say?")
    assert model.offered == [["search_notes", "create_note"], ["read_note"]]
    assert messages[-1].text == f"{note.title}: {note.text}"


def test_a_list_is_not_read(data: PersonalData) -> None:
    model = Scripted(needs=["notes"], script=[("search_notes", {"query": "all notes"})])
    messages, _ = take_turns(model, data, "list all my notes")
    assert messages[-1].text.startswith(f"You have {len(data.notes.all())} notes: ")
    assert all(note.title in messages[-1].text for note in data.notes.all())


@pytest.mark.parametrize(
    ("asked", "called", "stated"),
    [
        ("how warm is it in Oslo and Rome?", ["Oslo", "Rome"], ["Oslo", "Rome"]),
        ("how warm is it in Oslo, Rome and Paris?", ["Oslo", "Rome", "Paris"], ["Oslo", "Rome", "Paris"]),
        ("how warm is it in Oslo and Rome?", ["Oslo", "Oslo"], ["Oslo"]),
        ("how warm is it in Oslo and here?", ["Oslo", "London"], ["Oslo"]),
    ],
)
def test_each_city_is_asked_for(data: PersonalData, asked: str, called: list[str], stated: list[str]) -> None:
    model = Scripted(needs=["weather"], script=[("get_weather", {"city": city}) for city in called])
    messages, _ = take_turns(model, data, asked)
    assert [line.split()[1] for line in messages[-1].text.splitlines()] == stated
    assert not model.script


def test_a_message_that_needs_two_things_gets_both(data: PersonalData) -> None:
    weather = [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "London"})]
    model = Scripted(needs=["weather", "calendar"], script=[*weather, ("list_events", {"date": "today"})])
    messages, _ = take_turns(model, data, "how warm is it in Oslo, and what is on today?")
    assert "In Oslo it is" in messages[-1].text
    assert "On your calendar today" in messages[-1].text


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("send a mail to Anna", "I cannot do that, and nothing was done."),
        ("What time is it?", "It is Wednesday, November 18, 2026, 12:05."),
        ("what can you do for me?", "I can look things up"),
    ],
)
@pytest.mark.parametrize("steered", [True, False])
def test_what_needs_no_model(data: PersonalData, asked: str, answered: str, steered: bool) -> None:
    around = None if steered else StatedResults(lambda: NOON)
    (answer,), _ = take_turns(Scripted(needs=["talk"], script=[]), data, asked, around=around)
    assert answer.text.startswith(answered)


@pytest.mark.parametrize("said", ["Sure! I have booked a table for you. Enjoy!", "", '{"name": "book"}'])
def test_what_was_not_done_is_neither_shown_nor_remembered(data: PersonalData, said: str) -> None:
    model = Scripted(needs=["talk"], script=[said])
    (answer,), shown = take_turns(model, data, "we would like to eat out")
    assert answer.text.strip() == shown.text.strip()
    assert "booked" not in shown.text
    assert "Enjoy" not in shown.text
    assert "I have no answer to that." in shown.text


@pytest.mark.parametrize(("said", "times"), [("So it goes. ", 2), ("cture", 0), ("cture ", 0)])
def test_a_loop_ends(data: PersonalData, said: str, times: int) -> None:
    model = Scripted(needs=["talk"], script=[said * 300])
    _, shown = take_turns(model, data, "and?")
    assert shown.text.count(said.strip()) == times
    assert "I have no answer to that." in shown.text


def test_a_loop_without_a_space_is_not_generated_to_its_end() -> None:
    class Endless(Scripted):
        async def _astream(
            self, messages: list[BaseMessage], *args: Any, **options: Any
        ) -> AsyncIterator[ChatGenerationChunk]:
            while True:
                yield ChatGenerationChunk(message=AIMessageChunk(content="cture"))

    model = CheckedModel(model=Endless(needs=[], script=[]), may_say=lambda _: True, otherwise="Sorry.")
    assert asyncio.run(model.ainvoke("and?")).text == "Sorry."


def test_a_long_sentence_is_shown_before_its_end(data: PersonalData) -> None:
    said = " ".join(f"word{number}" for number in range(200))
    _, shown = take_turns(Scripted(needs=["talk"], script=[said]), data, "and?")
    assert shown.text.strip() == said


def test_a_text_that_is_brought_needs_no_tool(data: PersonalData) -> None:
    model = Scripted(needs=["notes"], script=["It is about words."])
    (answer,), _ = take_turns(model, data, "Summarise this\n\n" + "some words " * 50)
    assert answer.text.strip() == "It is about words."


def test_the_user_is_asked_for_what_is_missing_and_the_answer_completes_the_call(data: PersonalData) -> None:
    script = [("get_weather", {"city": "London"}), ("get_weather", {"city": "Bergen"})]
    model = Scripted(needs=["weather"], script=script)
    messages, _ = take_turns(model, data, "will it rain?", "Bergen")
    assert messages[-1].text.startswith("In Bergen it is ")


def test_a_write_in_words_of_the_model_is_not_proposed(data: PersonalData) -> None:
    before = data.notes.all()
    model = Scripted(needs=["notes"], script=[("create_note", {"text": "Car insurance covers vehicles"})])
    (answer,), _ = take_turns(model, data, "hello there")
    assert answer.text == "What should the note say?"
    assert data.notes.all() == before


@pytest.mark.parametrize("steered", [True, False])
def test_a_dictated_note_needs_no_model(data: PersonalData, steered: bool) -> None:
    around = None if steered else StatedResults(lambda: NOON)
    model = Scripted(needs=["notes"], script=[])
    messages, _ = take_turns(model, data, 'Write a note: "candles"\n- two', around=around)
    assert messages[-1].text == 'Saved as a note: "candles"\n- two'
    assert data.notes.all()[-1].text == '"candles"\n- two'


@pytest.mark.parametrize(
    ("first", "then", "place"),
    [
        ("do I have new mail?", "read the second one", 1),
        ("do I have new mail?", "and the 3rd?", 2),
        ("do I have new mail?", "what does the last one say?", 4),
        ("do I have new mail?", "read the first one please", 0),
    ],
)
@pytest.mark.parametrize("steered", [True, False])
def test_a_place_in_a_list_is_read(
    data: PersonalData, first: str, then: str, place: int, steered: bool
) -> None:
    around = None if steered else StatedResults(lambda: NOON)
    model = Scripted(needs=["mail"], script=[("search_mail", {"query": "new mail"})])
    messages, _ = take_turns(model, data, first, then, around=around)
    mail = data.mail.all()[-1 - place]
    assert messages[-1].text == f"{mail.sender}, {mail.subject}: {mail.body}"


def test_a_pronoun_means_what_was_read(data: PersonalData) -> None:
    mail = next(mail for mail in data.mail.all() if "Okafor" in mail.sender)
    script = [("search_mail", {"query": "okafor"}), ("read_mail", {"id": mail.id})]
    model = Scripted(needs=["mail"], script=script)
    messages, _ = take_turns(model, data, "any mail from okafor?", "what does he want?", "when is it?")
    assert [call["args"] for call in messages[0].tool_calls] == [{"id": mail.id}]  # type: ignore[union-attr]
    assert messages[-1].text.endswith(mail.body)


def test_a_call_that_fails_is_tried_again_once(data: PersonalData) -> None:
    script = [("read_file", {"path": "no/such.txt"}), ("read_file", {"path": "nor/this.txt"})]
    model = Scripted(needs=["files"], script=script)
    messages, _ = take_turns(model, data, "read the file no/such.txt")
    assert messages[-1].text.startswith("That did not work: no file at ")


def test_the_model_is_shown_earlier_answers_without_calls(data: PersonalData) -> None:
    model = Scripted(needs=["calendar"], script=[("list_events", {"date": "today"})] * 2)
    take_turns(model, data, "what is on today?", "what is on today?")
    assert not any(isinstance(message, ToolMessage) for message in model.prompts[-1])
    assert any(message.text.startswith("On your calendar today") for message in model.prompts[-1])


def test_an_answer_from_a_long_text_is_checked(data: PersonalData) -> None:
    text = "The boiler was serviced in May. " * 12
    note = data.notes.create(text)
    script = [("read_note", {"id": note.id}), "The boiler was serviced in June. It runs well."]
    model = Scripted(needs=["notes"], script=script)
    messages, shown = take_turns(model, data, f"when was the boiler serviced, by {note.id}?")
    assert "June" not in shown.text
    assert messages[-1].text.strip() == f"{note.title}: {text.strip()}"
    model = Scripted(needs=["notes"], script=[script[0], "The boiler was serviced in May."])
    messages, _ = take_turns(model, data, f"when was the boiler serviced, by {note.id}?")
    assert messages[-1].text.strip() == "The boiler was serviced in May."


def test_a_model_that_knows_the_tools_is_offered_all_of_them(data: PersonalData) -> None:
    model = Scripted(needs=[], script=[("list_events", {"date": "today"})])
    messages, _ = take_turns(model, data, "what is on today?", around=StatedResults(lambda: NOON))
    assert len(model.offered[0]) > 10
    assert messages[-1].text.startswith("On your calendar today")
