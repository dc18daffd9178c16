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
from agentrt.examples.assistant.steering import Steering
from agentrt.examples.personal_assistant import ask, assistant_agent, assistant_tools

WEDNESDAY = dt.date(2026, 11, 18)
NOON = dt.datetime.combine(WEDNESDAY, dt.time(12, 5))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PersonalData]:
    folder: Path = tmp_path_factory.mktemp("sample") / "data"
    write_sample_data(folder, WEDNESDAY)
    with contextlib.closing(PersonalData.open(folder, today=lambda: WEDNESDAY)) as opened:
        yield opened


@pytest.fixture
def own(tmp_path: Path) -> Iterator[PersonalData]:
    """Data of one test, which it may change."""
    write_sample_data(tmp_path / "data", WEDNESDAY)
    with contextlib.closing(PersonalData.open(tmp_path / "data", today=lambda: WEDNESDAY)) as opened:
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
    model: Scripted, data: PersonalData, *questions: str, steered: bool = True
) -> tuple[list[AnyMessage], Shown]:
    """Ask one question after the other; return the messages of the last turn, and what was shown of all."""
    around = Steering(data, model if steered else None, lambda: NOON)
    agent = assistant_agent(
        model, assistant_tools(data, Latencies(0, 0, 0), web=True, changes=True), [around]
    )
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


@pytest.mark.parametrize("steered", [True, False])
def test_a_list_is_stated_whole(data: PersonalData, steered: bool) -> None:
    model = Scripted(needs=[], script=[])
    messages, _ = take_turns(model, data, "what is on tomorrow?", steered=steered)
    stated = messages[-1].text
    assert stated.startswith("On your calendar tomorrow, Thursday, November 19: ")
    assert all(event.title in stated for event in data.calendar.events_on("tomorrow"))
    messages, _ = take_turns(model, data, "list all my notes", steered=steered)
    assert messages[-1].text.startswith(f"You have {len(data.notes.all())} notes: ")
    assert all(note.title in messages[-1].text for note in data.notes.all())


def test_the_calls_of_all_requests_are_made_at_once_and_each_is_stated(data: PersonalData) -> None:
    asked = "how warm is it in Oslo and Rome, what is on today, and what time is it?"
    messages, _ = take_turns(Scripted(needs=[], script=[]), data, asked)
    assert isinstance(messages[0], AIMessage)
    assert [call["name"] for call in messages[0].tool_calls] == ["get_weather", "get_weather", "list_events"]
    *told, clock = messages[-1].text.splitlines()
    assert [line.split(" it is")[0] for line in told[:2]] == ["In Oslo", "In Rome"]
    assert told[2].startswith("On your calendar today")
    assert clock == "It is Wednesday, November 18, 2026, 12:05."


@pytest.mark.parametrize(
    ("needs", "asked", "called"),
    [
        (["notes"], "is there a thing with squirrels?", "search_notes"),
        (["calendar"], "do I have time for squirrels?", "list_events"),
        (["web"], "is there a site about squirrels?", "search_web"),
        (["weather"], "will it be nice for squirrels in Rome?", "get_weather"),
    ],
)
def test_where_words_do_not_tell_the_model_says_what_is_needed(
    data: PersonalData, needs: list[str], asked: str, called: str
) -> None:
    messages, _ = take_turns(Scripted(needs=needs, script=[]), data, asked)
    assert isinstance(messages[0], AIMessage)
    assert [call["name"] for call in messages[0].tool_calls] == [called]


def test_what_may_be_meant_is_said_to_be_the_closest(data: PersonalData) -> None:
    asked = "where do zebras carry the tent overnight?"
    messages, _ = take_turns(Scripted(needs=["notes"], script=[]), data, asked)
    assert messages[-1].text.startswith("The closest I found: ")


@pytest.mark.parametrize(
    ("asked", "begins"),
    [
        ("how old is Greta?", "The closest I found: Greta Klein, Market stall: "),
        ("how many jars of jam did Greta sell?", "Greta Klein, Market stall: "),
        ("what is on today, and how old is Greta?", "On your calendar today"),
    ],
)
def test_a_text_with_few_of_the_words_is_said_to_be_the_closest(
    data: PersonalData, asked: str, begins: str
) -> None:
    messages, _ = take_turns(Scripted(needs=["talk"], script=[]), data, asked)
    assert messages[-1].text.startswith(begins)
    assert ("\nThe closest I found: Greta" in messages[-1].text) is (" and " in asked)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("send a mail to Anna", "I cannot do that, and nothing was done."),
        ("open the browser", "I cannot do that, and nothing was done."),
        ("What time is it?", "It is Wednesday, November 18, 2026, 12:05."),
        ("what can you do for me?", "I can look things up"),
    ],
)
@pytest.mark.parametrize("steered", [True, False])
def test_what_needs_no_model(data: PersonalData, asked: str, answered: str, steered: bool) -> None:
    (answer,), _ = take_turns(Scripted(needs=["talk"], script=[]), data, asked, steered=steered)
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


@pytest.mark.parametrize(
    ("asked", "answered", "called"),
    [
        ("will it rain?", "Bergen", ("get_weather", {"city": "Bergen"})),
        ("take a note please", "buy milk", ("create_note", {"text": "buy milk"})),
        (
            "add an event on December 9 at 11:00",
            "tax office",
            ("add_event", {"title": "tax office", "date": "December 9", "time": "11:00"}),
        ),
        (
            "put yoga in my calendar for Friday.",
            "oh right. 5 in the afternoon",
            ("add_event", {"title": "yoga", "date": "Friday", "time": "5 in the afternoon"}),
        ),
    ],
)
def test_the_user_is_asked_for_what_is_missing_and_the_answer_completes_the_call(
    data: PersonalData, asked: str, answered: str, called: tuple[str, dict[str, str]]
) -> None:
    messages, _ = take_turns(Scripted(needs=[], script=[]), data, asked, answered)
    assert isinstance(messages[0], AIMessage)
    assert [(call["name"], call["args"]) for call in messages[0].tool_calls] == [called]


@pytest.mark.parametrize("steered", [True, False])
def test_a_model_writes_nothing_of_its_own(data: PersonalData, steered: bool) -> None:
    before = data.notes.all()
    model = Scripted(needs=["notes"], script=[("create_note", {"text": "Car insurance covers vehicles"})])
    take_turns(model, data, "hello there", steered=steered)
    assert data.notes.all() == before


@pytest.mark.parametrize(
    ("asked", "noted"),
    [
        ("When do the roofers come? Note down the day and the hour", "08:00 to 16:00 Roofers"),
        ("find the wifi password of the cabin and put it in a note", "seven red kettles"),
        ("look up the wifi password of the cabin and save it as a note", "seven red kettles"),
    ],
)
def test_a_note_is_made_of_what_the_same_message_looks_up(own: PersonalData, asked: str, noted: str) -> None:
    before = own.notes.all()
    messages, _ = take_turns(Scripted(needs=[], script=[]), own, asked, steered=False)
    (note,) = [note for note in own.notes.all() if note not in before]
    assert noted in note.text or noted in note.title
    assert messages[-1].text.endswith(f"Saved as a note: {note.text}") or noted in messages[-1].text
    assert [type(message) for message in messages].count(AIMessage) == 3


def test_another_request_is_no_answer_and_two_events_are_not_corrected_unasked(own: PersonalData) -> None:
    model = Scripted(needs=[], script=[])
    said = (
        "add an event tomorrow at 10",
        'add "Standup" on Monday at 9:30',
        'add "Review" on Tuesday at 9:30 and "Planning" on Monday at 16:00',
        "make that 17:00",
        "the Planning",
    )
    messages, _ = take_turns(model, own, *said[:1], *said[2:4], steered=False)
    assert messages[-1].text.startswith("Which one: ")
    for title in ("Review", "Planning"):
        own.calendar.delete(title, "2026-11-24" if title == "Review" else "2026-11-23")
    take_turns(model, own, *said, steered=False)
    assert [event.title for event in own.calendar.events_on("Monday")] == ["Standup", "Planning"]
    times = {event.title: event.time for event in own.calendar.events_on("next week")}
    assert (times["Review"], times["Planning"]) == ("Tuesday 09:30", "Monday 17:00")


def test_nothing_is_noted_where_nothing_is_found(own: PersonalData) -> None:
    before, asked = own.notes.all(), "find my note about zebras and note that down"
    take_turns(Scripted(needs=[], script=[]), own, asked, steered=False)
    assert own.notes.all() == before


@pytest.mark.parametrize("steered", [True, False])
def test_a_dictated_note_needs_no_model(data: PersonalData, steered: bool) -> None:
    model = Scripted(needs=["notes"], script=[])
    messages, _ = take_turns(model, data, 'Write a note: "candles"\n- two', steered=steered)
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
    messages, _ = take_turns(Scripted(needs=[], script=[]), data, first, then, steered=steered)
    mail = data.mail.all()[-1 - place]
    assert messages[-1].text == f"{mail.sender}, {mail.subject}: {mail.body}"


def test_what_fails_is_said(data: PersonalData) -> None:
    messages, _ = take_turns(Scripted(needs=[], script=[]), data, "read m99")
    assert messages[-1].text == "That did not work: no mail with id m99."


def test_the_model_is_shown_earlier_answers_without_calls(data: PersonalData) -> None:
    model = Scripted(needs=["talk"], script=["Fine."])
    take_turns(model, data, "what is on today?", "how do you feel about it?")
    assert not any(isinstance(message, ToolMessage) for message in model.prompts[-1])
    assert any(message.text.startswith("On your calendar today") for message in model.prompts[-1])


def test_an_answer_from_a_long_text_is_checked(data: PersonalData) -> None:
    text = "The squirrels were fed in May. " * 12
    note = data.notes.create(text)
    model = Scripted(needs=[], script=["The squirrels were fed in June. They are well."])
    messages, shown = take_turns(model, data, "when were the squirrels fed?")
    assert "June" not in shown.text
    assert messages[-1].text.strip() == f"{note.title}: {text.strip()}"
    model = Scripted(needs=[], script=["The squirrels were fed in May."])
    messages, _ = take_turns(model, data, "when were the squirrels fed?")
    assert messages[-1].text.strip() == "The squirrels were fed in May."


def test_a_plan_is_of_the_data_before_its_own_writes(data: PersonalData) -> None:
    messages, _ = take_turns(Scripted(needs=[], script=[]), data, "Write a note: zebras. What is on today?")
    assert messages[-1].text.startswith("Saved as a note: zebras")
    assert "On your calendar today" in messages[-1].text


def test_what_was_written_is_said_and_looked_up_behind_the_write(own: PersonalData) -> None:
    model = Scripted(needs=["talk"], script=[])
    messages, _ = take_turns(model, own, "move the dentist to Friday at 11:20 and show me Friday")
    moved, listed = messages[-1].text.splitlines()
    assert moved == "Moved: Dentist, Friday 20 November 11:20."
    assert "11:20 to" in listed
    messages, _ = take_turns(model, own, 'add "Sauna" tomorrow at 18:00', "Have you really added it?")
    assert messages[-1].text.startswith("Yes. Added to your calendar: Sauna, tomorrow")


def test_the_half_that_is_not_understood_is_quoted(data: PersonalData) -> None:
    asked = "what is on today and what does she like?"
    messages, _ = take_turns(Scripted(needs=[], script=[]), data, asked, steered=False)
    listed, missed = messages[-1].text.splitlines()
    assert listed.startswith("On your calendar today")
    assert "what does she like?" in missed


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ("I'm so tired today", "I see."),
        ("Ida lost her first tooth today!", "I see."),
        ("You're brilliant", "Thank you!"),
        ("sorry, I was rude earlier", "No problem!"),
        ("Where is the xylophone?", "I found nothing about xylophone"),
    ],
)
def test_a_model_that_only_knows_its_tools_is_not_asked_for_more(
    data: PersonalData, said: str, answered: str
) -> None:
    (answer,), _ = take_turns(Scripted(needs=[], script=["Goodbye!"]), data, said, steered=False)
    assert answer.text.startswith(answered)


def test_what_pleases_is_small_talk(data: PersonalData) -> None:
    model = Scripted(needs=["notes"], script=["Enjoy the kettle!"])
    (answer,), _ = take_turns(model, data, "I love my new kettle")
    assert answer.text.strip() == "Enjoy the kettle!"
    (answer,), _ = take_turns(model, data, "I love my new kettle", steered=False)
    assert answer.text.startswith("I see.")


def test_a_question_of_general_knowledge_is_not_mixed_with_what_was_found(data: PersonalData) -> None:
    model = Scripted(needs=["notes"], script=["Lima."])
    (answer,), _ = take_turns(model, data, "read n3", "what is the capital of Peru?")
    assert answer.text.strip() == "Lima."
    assert [message.text for message in model.prompts[-1][1:]] == ["what is the capital of Peru?"]


def test_a_model_that_only_talks_keeps_its_words(data: PersonalData) -> None:
    model = Scripted(needs=[], script=["Hello! How are you?"])
    (answer,), _ = take_turns(model, data, "good morning", steered=False)
    assert answer.text.strip() == "Hello! How are you?"


def test_a_model_that_only_talks_is_not_offered_what_it_was_not_trained_on(data: PersonalData) -> None:
    model = Scripted(needs=[], script=["Hello! How are you?"])
    take_turns(model, data, "good morning", steered=False)
    (offered,) = model.offered
    assert "add_event" in offered
    assert not {"delete_note", "delete_event", "move_event"}.intersection(offered)


@pytest.mark.parametrize("steered", [True, False])
def test_what_was_asked_for_is_changed_and_nothing_else(
    own: PersonalData, tmp_path: Path, steered: bool
) -> None:
    def answer(*questions: str) -> str:
        return take_turns(Scripted(needs=[], script=[]), own, *questions, steered=steered)[0][-1].text

    asked = ("move an appointment", "the dentist", "Friday at 10:15")
    assert answer(*asked) == "Moved: Dentist, Friday 20 November 10:15."
    assert answer("cancel the dentist") == "Cancelled: Dentist, Friday 20 November 10:15."
    assert answer("cancel the dentist").startswith("There is no event dentist")
    assert answer("cancel the event on Friday", "what is on today?").startswith("On your calendar today")
    assert answer("read n3", "delete that note").startswith("Deleted the note: ")
    assert len(own.notes.all()) == 11
    assert len([*(tmp_path / "data" / "notes" / ".deleted").iterdir()]) == 1
    assert len(own.calendar.events_on("Friday")) == 2
    assert answer("delete all my notes").startswith("I cannot do that, and nothing was done.")
