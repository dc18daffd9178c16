"""Chats that tell what came meanwhile, at a prompt with a keyboard."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from agentrt.cli.chat.assistant import Assistant, open_assistant
from agentrt.cli.chat.known_news import KnownNews
from agentrt.cli.chat.line_editor import LineEditor
from agentrt.cli.chat.opener import ModelOpener
from agentrt.cli.chat.session import DESCRIPTIONS, ChatSession
from agentrt.examples.assistant import sources
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.chat import away
from agentrt.examples.chat.conversation import Conversation
from tests.agentrt.cli.chat.echo import Echo, echo_assistant
from tests.conftest import Command
from tests.examples.chat.deliver import deliver, maildir
from tests.patience import PATIENCE_S

BOILER = ("Hanna", "Boiler service", "The engineer comes on Monday at nine.")
ANSWERED = " s)"
"""Printed behind an answer."""
KEPT = "(kept)"
"""Seen when what is known was written."""


class Person(io.StringIO):
    """Sees what is printed, and does one thing after the other, each when what it waits for was printed."""

    def __init__(self, keys: PipeInput) -> None:
        super().__init__()
        self.keys = keys
        self._lock = threading.Lock()
        self._new = ""
        self._plan: list[tuple[str, Sequence[str | Callable[[], None]]]] = []

    def plan(self, *steps: tuple[str, Sequence[str | Callable[[], None]]]) -> None:
        """Do these things behind these texts: keys are pressed, functions called."""
        self._plan = [*steps]
        self._new = ""

    def see(self, text: str) -> None:
        """Look at ``text``, perhaps on another thread."""
        with self._lock:
            self._new += text
            if not (self._plan and self._plan[0][0] in self._new):
                return
            wanted, things = self._plan.pop(0)
            self._new = self._new.partition(wanted)[2]
        for thing in things:
            if isinstance(thing, str):
                self.keys.send_text(thing)
            else:
                thing()

    def write(self, text: str) -> int:
        self.see(text)
        return super().write(text)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Person]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(away, "LOOK_EVERY_S", 10 * PATIENCE_S)
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        person = Person(keys)
        save = KnownNews.save

        def save_and_say(self: KnownNews, known: Sequence[str]) -> None:
            save(self, known)
            person.see(KEPT)

        monkeypatch.setattr(KnownNews, "save", save_and_say)
        yield person


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """An inbox with a mail."""
    inbox = maildir(tmp_path / "Mail")
    deliver(inbox, "Old", "Old news")
    return inbox


def talk(runner: asyncio.Runner, assistant: Assistant, person: Person) -> str:
    """Talk until the person leaves; return what was printed, and see that nothing goes on."""
    console = Console(file=person, width=200, highlight=False, emoji=False)
    conversation = Conversation(assistant.agent, assistant.runtime.context_length)
    editor = LineEditor(runner, DESCRIPTIONS)
    begun = person.tell()
    ChatSession(assistant, conversation, console, editor.read, editor.print_above).run()
    assert not asyncio.all_tasks(runner.get_loop())
    return person.getvalue()[begun:]


def chat(person: Person, folder: Path) -> str:
    """Chat with nano about the data in ``folder``."""
    with asyncio.Runner() as runner:
        opened = open_assistant(
            "nano", runner, ModelOpener(), data=[folder], max_tokens=None, weather_delay=0, why_not=None
        )
        with opened as assistant:
            return talk(runner, assistant, person)


@pytest.mark.slow
def test_mail_is_told_once_and_can_be_read_by_what_was_told(person: Person, inbox: Path) -> None:
    person.plan(
        (KEPT, [lambda: deliver(inbox, *BOILER), "Hello!\r"]),
        ("Boiler", ["read it\r"]),
        (BOILER[2], ["\x04"]),
    )
    printed = chat(person, inbox)
    told = "While you were away: 1 new mail. Hanna: Boiler service.\n"
    assert told in printed
    assert printed.index(ANSWERED) < printed.index(told), "behind the answer in which it came"
    assert "Old news" not in printed, "the first chat"
    deliver(inbox, "Tom", "Kayak", "It is on the roof.")
    person.plan(("Kayak", ["what does Tom want?\r"]), ("roof", ["/exit\r"]))
    printed = chat(person, inbox)
    assert "While you were away: 1 new mail. Tom: Kayak.\n" in printed, "not that of the last chat"
    assert "Tom, Kayak: It is on the roof." in printed


@pytest.mark.slow
def test_one_question_and_samples_tell_nothing(
    person: Person, inbox: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    exit_code, answer, _ = command("chat", "--data", str(inbox), "Hello!")
    assert exit_code == 0
    assert "While" not in answer
    assert not (tmp_path / "state" / "agentrt" / "chat_known_news.json").exists()
    with asyncio.Runner() as runner:
        opened = open_assistant(
            "nano", runner, ModelOpener(), data=None, max_tokens=None, weather_delay=0, why_not=None
        )
        with opened as assistant:
            assert assistant.away is None


def test_nothing_is_printed_above_what_is_typed(person: Person) -> None:
    printed: list[str] = []
    with asyncio.Runner() as runner:
        editor = LineEditor(runner, DESCRIPTIONS)
        assert not runner.run(editor.print_above(lambda: printed.append("there is no prompt")))
        buffer = editor._session.default_buffer
        changed = asyncio.Event()
        buffer.on_text_changed += lambda _: changed.set()

        async def is_printed(keys: str) -> bool:
            changed.clear()
            person.keys.send_text(keys)
            await changed.wait()
            return await editor.print_above(lambda: printed.append(buffer.text))

        async def check() -> None:
            try:
                assert not await is_printed("w")
                assert not await is_printed("h")
                assert await is_printed("\x15")  # Ctrl-U deletes the line
                assert not await is_printed("why?")
            finally:
                person.keys.send_text("\r")

        checking = runner.get_loop().create_task(check())
        read = editor.read()
        runner.run(asyncio.wait_for(checking, PATIENCE_S))
        assert read == "why?"
    assert printed == [""]


class Endless(BaseChatModel):
    """Begins a sentence, presses keys, and never ends it."""

    press: Callable[[], None]
    ended: list[BaseException]

    @property
    def _llm_type(self) -> str:
        return "endless"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.press()
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            self.ended.append(error)
            raise
        yield


@pytest.mark.parametrize(
    "plan",
    [
        [("begun", ["\x04"])],
        [("begun", ["/model other\r"])],
        [("begun", ["\x03"]), ("Ctrl-D leaves", ["/exit\r"])],
        [("begun", ["interrupt\r"]), ("(stopped)", ["/exit\r"])],
    ],
)
def test_a_digest_in_progress_ends_with_the_chat(person: Person, inbox: Path, plan: Any) -> None:
    KnownNews([inbox]).save([])
    model = Endless(press=lambda: person.see("begun"), ended=[])
    with asyncio.Runner() as runner, contextlib.closing(PersonalData.open(inbox)) as data:
        assistant = echo_assistant(runner, Echo(requests=[]))
        news = away.Away(data, KnownNews([inbox]), model)
        person.plan(*plan)
        printed = talk(runner, dataclasses.replace(assistant, away=news), person)
    assert "Old news" not in printed
    assert [type(error) for error in model.ended] == [asyncio.CancelledError]
    assert KnownNews([inbox]).load() == [], "it is told the next time"


def test_why_news_is_not_told_any_more_is_said_once(
    person: Person, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "What is new is not told any more: "

    def fail() -> None:
        monkeypatch.setattr(sources, "_MOST_FILES", 0)

    def go_on() -> None:
        person.plan((ANSWERED, ["\x04"]) if said in person.getvalue() else (ANSWERED, [go_on]))
        person.keys.send_text("once more\r")

    person.plan((KEPT, [fail, go_on]))
    with asyncio.Runner() as runner, contextlib.closing(PersonalData.open(inbox)) as data:
        assistant = echo_assistant(runner, Echo(requests=[]))
        news = away.Away(data, KnownNews([inbox]))
        printed = talk(runner, dataclasses.replace(assistant, away=news), person)
    assert f"{said}{inbox} holds more than 0 files. Give fewer." in printed
    assert printed.count(said) == 1
    assert printed.index(said) < printed.rindex("you said once more"), "the chat goes on"
