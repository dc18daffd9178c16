"""What a conversation is told of mail and events that came while nobody asked."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field

from agentrt import Priority
from agentrt.adapters.langchain import ChatAgentRT
from agentrt.cli.chat.known_news import KnownNews
from agentrt.errors import EngineFailedError
from agentrt.examples.assistant.calendar import new_calendar, new_event
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.mail import Mail
from agentrt.examples.assistant.model import open_runtime
from agentrt.examples.chat import away
from agentrt.examples.chat.away import MOST_TOKENS, Away, describe
from agentrt.examples.chat.conversation import Conversation, SilentView
from agentrt.examples.chat.steered import steered_agent
from agentrt.priority import current_priority
from agentrt.runtime import LocalRuntime
from tests.examples.chat.deliver import deliver, maildir
from tests.patience import PATIENCE_S, in_event_loop
from tests.runtime.conftest import Gate

NOON = dt.datetime(2026, 11, 18, 12, 0)
BOILER = ("Hanna", "Boiler service", "The engineer comes on Monday at 9.")


class Writes(BaseChatModel):
    """Writes what its script has for each request: a text, or an error that is raised."""

    script: list[str | Exception]
    meanwhile: Callable[[], None] = lambda: None
    """What happens while it writes."""
    asked: list[tuple[Priority, str]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "writes"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.asked.append((current_priority(), messages[-1].text))
        said = self.script.pop(0)
        self.meanwhile()
        if isinstance(said, Exception):
            raise said
        for word in said.split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))
        end = AIMessageChunk(content="", response_metadata={"finish_reason": "stop"})
        yield ChatGenerationChunk(message=end)


class Person:
    """A person who reads what is told, unless they type."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[str] = asyncio.Queue()
        self.typing = 0
        """So many times they cannot be told."""

    async def show(self, text: str) -> bool:
        self.typing -= 1
        if self.typing < 0:
            self._told.put_nowait(text)
        return self.typing < 0

    async def told(self) -> str:
        """Wait for what is told next."""
        return await self._told.get()


class Kept(KnownNews):
    """What is known, in a file, and how often it was written."""

    def __init__(self, folder: Path) -> None:
        super().__init__([folder / "data"], folder / "state" / "known.json")
        self._loop = asyncio.get_running_loop()
        self._saved = asyncio.Semaphore(0)

    def save(self, known: Sequence[str]) -> None:
        super().save(known)
        self._loop.call_soon_threadsafe(self._saved.release)

    async def saved(self) -> None:
        """Wait until it was written once more."""
        await self._saved.acquire()


class Chat:
    """A chat on the data in a folder: what is told in it, and its conversation."""

    def __init__(self, folder: Path, model: BaseChatModel | None = None) -> None:
        self._data = PersonalData.open(folder / "data", today=NOON.date)
        self.kept = Kept(folder)
        self.person = Person()
        agent: Any = None  # nothing is asked
        self.conversation = Conversation(agent, 20_000)
        self.away = Away(self._data, self.kept, model, lambda: NOON)

    async def __aenter__(self) -> Chat:
        self._watching = asyncio.create_task(self.away.watch(self.conversation, self.person.show))
        await self.kept.saved()  # it has looked once
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._watching
        self._data.close()

    async def told_next(self) -> str:
        """Have it look again; return what is told, once it is kept."""
        self.away.look_again()
        return await self.told()

    async def told(self) -> str:
        """Return what is told next, once it is kept."""
        text = await self.person.told()
        await self.kept.saved()
        return text


@pytest.fixture(autouse=True)
def looks_only_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "LOOK_EVERY_S", 10 * PATIENCE_S)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """An inbox with a mail."""
    inbox = maildir(tmp_path / "data" / "Mail")
    deliver(inbox, "Old", "Old news")
    return inbox


@in_event_loop
async def test_the_first_look_tells_nothing_and_later_mail_is_told_once(tmp_path: Path, inbox: Path) -> None:
    async with Chat(tmp_path) as chat:
        deliver(inbox, *BOILER)
        assert await chat.told_next() == "While you were away: 1 new mail. Hanna: Boiler service."
        deliver(inbox, "Ada", "Keys")
        assert await chat.told_next() == "While you were away: 1 new mail. Ada: Keys."
    deliver(inbox, "Tom", "Kayak")
    async with Chat(tmp_path) as chat:
        assert await chat.told() == "While you were away: 1 new mail. Tom: Kayak."


@in_event_loop
async def test_mail_that_was_read_elsewhere_is_not_told(tmp_path: Path, inbox: Path) -> None:
    async with Chat(tmp_path) as chat:
        deliver(inbox, "Ada", "Keys", flags="S")
        deliver(inbox, *BOILER)
        deliver(inbox, "Tom", "Kayak", flags="F")
        assert (
            await chat.told_next() == "While you were away: 2 new mails. Tom: Kayak; Hanna: Boiler service."
        )


@in_event_loop
async def test_who_types_is_told_later(tmp_path: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "LOOK_EVERY_S", 0.0)
    async with Chat(tmp_path, Writes(script=["The engineer comes."])) as chat:
        chat.person.typing = 3
        deliver(inbox, *BOILER)
        assert "Boiler" in await chat.told_next()
        assert chat.person.typing == -1
        assert len(chat.conversation.turns) == 1


@in_event_loop
async def test_what_an_answer_has_just_shown_is_not_told_again(tmp_path: Path, inbox: Path) -> None:
    shown: list[Any] = [HumanMessage("new mail?"), AIMessage("The latest mails: Hanna, Boiler service.")]

    def answer() -> None:
        chat.conversation.turns.append(shown)
        chat.away.look_again()

    model = Writes(script=["The engineer comes.", "Hello."], meanwhile=answer)
    async with Chat(tmp_path, model) as chat:
        deliver(inbox, *BOILER)
        chat.away.look_again()
        await chat.kept.saved()
        model.meanwhile = chat.conversation.forget
        deliver(inbox, "Tom", "Kayak")
        assert await chat.told_next() == "While you were away: 1 new mail. Tom: Kayak.\nKayak: Hello."


@in_event_loop
async def test_events_of_today_that_begin_in_the_next_hour_are_told_once(tmp_path: Path, inbox: Path) -> None:
    def write(*events: tuple[str, dt.datetime]) -> None:
        made = [new_event(title, start, dt.timedelta(hours=1)) for title, start in events]
        for event in made:
            event.add("location", "Main Street")
        (tmp_path / "data" / "calendar.ics").write_bytes(new_calendar(made).to_ical())

    soon = [("Dentist", NOON + dt.timedelta(minutes=60)), ("Lunch", NOON)]
    not_soon = [(f"{minutes}", NOON + dt.timedelta(minutes=minutes)) for minutes in (-1, 61, 24 * 60)]
    write(("Already on", NOON + dt.timedelta(minutes=5)))
    async with Chat(tmp_path) as chat:
        write(*soon, *not_soon, ("Already on", NOON + dt.timedelta(minutes=5)))
        told = "Begins soon: 12:00 Lunch (Main Street); 13:00 Dentist (Main Street)."
        assert await chat.told_next() == told
        deliver(inbox, "Tom", "Kayak")
        assert await chat.told_next() == "While you were away: 1 new mail. Tom: Kayak."
        _, called, *_ = chat.conversation.turns[-1]
    assert isinstance(called, AIMessage)
    assert called.tool_calls[0]["name"] == "list_events"


@in_event_loop
async def test_the_newest_mails_are_named_and_a_few_are_described(tmp_path: Path, inbox: Path) -> None:
    model = Writes(script=[f"Numbered {number}." for number in (7, 6, 5)])
    async with Chat(tmp_path, model) as chat:
        for number in range(1, 8):
            deliver(inbox, "Tom", f"Mail {number}", f"This one is numbered {number}.")
        assert await chat.told_next() == (
            "While you were away: 7 new mails. The latest: Tom: Mail 7; Tom: Mail 6; Tom: Mail 5; "
            "Tom: Mail 4; Tom: Mail 3.\nMail 7: Numbered 7.\nMail 6: Numbered 6.\nMail 5: Numbered 5."
        )
    assert {each for each, _ in model.asked} == {Priority.PROACTIVE}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("The engineer comes on Monday at 9. He is nice.", "The engineer comes on Monday at 9."),
        ("The engineer comes on Monday at 10.", ""),
        ("The engineer comes on Tuesday.", ""),
        ("I have moved the engineer to Monday.", ""),
        ("The engineer comes on Monday at", ""),
        ("", ""),
    ],
)
@in_event_loop
async def test_a_sentence_has_only_numbers_and_names_of_the_mail(
    tmp_path: Path, inbox: Path, written: str, shown: str
) -> None:
    async with Chat(tmp_path, Writes(script=[written])) as chat:
        deliver(inbox, *BOILER)
        told = "While you were away: 1 new mail. Hanna: Boiler service."
        assert await chat.told_next() == (f"{told}\nBoiler service: {shown}" if shown else told)


@in_event_loop
async def test_a_model_that_fails_is_told_once_and_not_asked_again(
    tmp_path: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away, "LOOK_EVERY_S", 0.0)
    model = Writes(script=[EngineFailedError("the engine stopped. Open the model again.")])
    async with Chat(tmp_path, model) as chat:
        chat.person.typing = 1
        deliver(inbox, *BOILER)
        assert await chat.told_next() == (
            "While you were away: 1 new mail. Hanna: Boiler service.\n"
            "New mails are only named from now on: the engine stopped. Open the model again."
        )
        deliver(inbox, "Tom", "Kayak")
        assert await chat.told_next() == "While you were away: 1 new mail. Tom: Kayak."


@in_event_loop
async def test_of_more_mails_than_are_kept_the_older_ones_are_known(
    tmp_path: Path, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away, "_MOST_KNOWN", 2)
    for subject in ("One", "Two", "Three"):
        deliver(inbox, "Tom", subject)
    for subject in ("Four", "Five"):
        async with Chat(tmp_path) as chat:
            deliver(inbox, "Tom", subject)
            assert await chat.told_next() == f"While you were away: 1 new mail. Tom: {subject}."
        (known,) = json.loads((tmp_path / "state" / "known.json").read_text()).values()
        assert len(known) == 2


@pytest.fixture(scope="module")
def nano() -> Iterator[LocalRuntime]:
    with open_runtime("nano") as runtime:
        yield runtime


@in_event_loop
async def test_what_was_told_and_what_was_said_before_it_can_both_be_followed_up(
    tmp_path: Path, inbox: Path, nano: LocalRuntime
) -> None:
    with contextlib.closing(PersonalData.open(tmp_path / "data", today=NOON.date)) as data:
        agent, _ = steered_agent(nano, data, now=lambda: NOON)
        conversation = Conversation(agent, nano.context_length)
        news = Away(data, Kept(tmp_path), now=lambda: NOON)
        person = Person()
        watching = asyncio.create_task(news.watch(conversation, person.show))

        async def ask(question: str) -> str:
            return (await conversation.ask(question, SilentView()))[-1].text

        async def come(*mails: tuple[str, ...]) -> None:
            for mail in mails:
                deliver(inbox, *mail)
            news.look_again()
            await person.told()

        await news._kept.saved()  # type: ignore[attr-defined]
        await come(BOILER, ("Tom", "Kayak", "It is on the roof."))
        assert conversation.last is None, "nothing was asked"
        assert await ask("read the second one") == f"Hanna, Boiler service: {BOILER[2]}"
        await come(("Ada", "Keys", "They are under the mat."))
        assert await ask("read it") == "Ada, Keys: They are under the mat."
        assert await ask("what does Tom want?") == "Tom, Kayak: It is on the roof."
        assert await ask("What is the weather?") == "In which city?"
        await come(("Lee", "Cake", "It is in the oven."))
        assert (await ask("Oslo")).startswith("In Oslo it is ")
        assert len(conversation) == 6
        watching.cancel()
        await asyncio.wait([watching])


@in_event_loop
async def test_a_question_that_is_asked_while_a_mail_is_described_is_answered_first(
    tmp_path: Path, inbox: Path, nano: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = threading.Semaphore(0)
    submit = nano._engine.submit

    def spy(*arguments: Any, **options: Any) -> Any:
        request = submit(*arguments, **options)
        submitted.release()
        return request

    monkeypatch.setattr(nano._engine, "submit", spy)
    mail = Mail("m1", "Hanna", "Boiler service", "The engineer comes on Monday at nine. " * 20)
    with contextlib.closing(PersonalData.open(tmp_path / "data")) as data:
        agent, _ = steered_agent(nano, data)
        gate = Gate(nano, monkeypatch)
        model = ChatAgentRT(runtime=nano, max_tokens=MOST_TOKENS)
        described = asyncio.create_task(describe(model, mail))
        assert await asyncio.to_thread(submitted.acquire, timeout=PATIENCE_S)
        (first,) = await asyncio.to_thread(gate.arrived)
        assert first.sequence.priority is Priority.PROACTIVE
        answered = asyncio.create_task(Conversation(agent, nano.context_length).ask("Hello!", SilentView()))
        assert await asyncio.to_thread(submitted.acquire, timeout=PATIENCE_S)
        (chunk,) = await asyncio.to_thread(gate.step)
        assert chunk.sequence.priority is Priority.REACTIVE
        assert chunk.samples, "its first token comes of the next kernel"
        gate.open()
        await asyncio.gather(described, answered)
