import asyncio
import contextlib
import io
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain.agents import create_agent
from rich.console import Console

from agentrt.cli.chat import talk
from agentrt.cli.chat.assistant import Assistant
from agentrt.cli.chat.saved_turns import SavedTurns
from agentrt.cli.chat.session import ChatSession
from agentrt.errors import ConfigurationError, ModelNotFoundError
from tests.agentrt.cli.chat.echo import LONG, Echo, Streaming, conversation_with, echo_assistant
from tests.patience import PATIENCE_S, until


class Printed(io.StringIO):
    """What was printed. The note behind turn ``interrupt_after`` is interrupted."""

    interrupt_after: int | None = None

    def write(self, text: str) -> int:
        if text.startswith("(") and " s)" in text and self.interrupt_after is not None:
            self.interrupt_after -= 1
            if self.interrupt_after == 0:
                signal.raise_signal(signal.SIGINT)
        return super().write(text)


class Chat:
    """A conversation with an echo; ``say`` runs it on some lines and returns what was printed."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.model = Echo(requests=[])
        self._runner = runner
        self._printed = Printed()

    def say(
        self,
        *lines: str | type[BaseException],
        context_tokens: int = 20_000,
        interrupt_after: int | None = None,
        verbose: bool = False,
        saved: SavedTurns | None = None,
    ) -> str:
        """Read these lines, or raise these exceptions in their place, and then end the input.

        The note behind turn ``interrupt_after`` is interrupted.
        """
        assistant = echo_assistant(self._runner, self.model, context_tokens=context_tokens)
        waiting = iter(lines)

        def read() -> str:
            line = next(waiting, EOFError)
            if isinstance(line, str):
                return line
            raise line

        self._printed.interrupt_after = interrupt_after
        console = Console(file=self._printed, width=200, highlight=False, emoji=False)
        conversation = conversation_with(assistant, saved)
        session = ChatSession(assistant, conversation, console, read, verbose=verbose)
        session.introduce()
        session.run()
        return self._printed.getvalue()


@pytest.fixture
def chat() -> Iterator[Chat]:
    with asyncio.Runner() as runner:
        yield Chat(runner)


def test_it_answers_line_by_line_until_the_input_ends(chat: Chat) -> None:
    printed = chat.say("hello", "", "bye")
    assert "you said hello" in printed
    assert printed.count(" s)") == 2
    assert [[message.text for message in request] for request in chat.model.requests] == [
        ["hello"],
        ["hello", "you said hello", "bye"],
    ], "no request for the empty line, and the conversation is remembered"


def test_it_shows_tool_calls(chat: Chat) -> None:
    printed = chat.say("look")
    for line in ('* look_up(word="roof")', "\nyou said roof is a word\n"):
        assert line in printed
    assert "= roof is a word" not in printed
    assert "= roof is a word" in chat.say("look", verbose=True)


def test_a_conversation_goes_on_where_it_ended(chat: Chat, tmp_path: Path) -> None:
    saved = SavedTurns(tmp_path / "state" / "kept.json")
    chat.say("look", "silent", "caf\u00e9", saved=saved)
    assert stat.S_IMODE((tmp_path / "state" / "kept.json").stat().st_mode) == 0o600
    assert "You had asked: caf\u00e9\nyou said caf\u00e9\n" in chat.say("next", saved=saved)
    assert [message.text for message in chat.model.requests[-1]] == [
        *("look", "", "roof is a word", "you said roof is a word", "caf\u00e9", "you said caf\u00e9", "next")
    ]
    chat.say("/new", saved=saved)
    assert saved.load() == []


def test_another_model_goes_on_and_the_old_one_where_that_cannot_be_opened(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"one": Echo(requests=[]), "two": Echo(requests=[])}
    lines = iter(["hello", "/model  two", "again", "/model none", "still there?", "/exit"])
    with asyncio.Runner() as runner:

        @contextlib.contextmanager
        def open_model(name: str) -> Iterator[Assistant]:
            if name not in models:
                raise ModelNotFoundError(f"there is no model {name}.")
            yield echo_assistant(runner, models[name])

        editor: Any = SimpleNamespace(read=lambda: next(lines), print_above=None)
        monkeypatch.setattr("agentrt.cli.chat.line_editor.LineEditor", lambda *_: editor)
        talk._talk(runner, "one", open_model, None, [], lambda: None, verbose=False)
    said = [[message.text for message in model.requests[-1]] for model in models.values()]
    assert said[0] == ["hello"]
    assert said[1] == ["hello", "you said hello", "again", "you said again", "still there?"]
    assert "there is no model none." in capsys.readouterr().err


def test_the_latest_turns_are_kept_and_a_failure_loses_no_answer(chat: Chat, tmp_path: Path) -> None:
    saved = SavedTurns(tmp_path / "kept.json")
    chat.say("long", "long", "long", "bye", saved=saved)
    assert [turn[0].text for turn in saved.load()] == ["long", "long", "bye"]
    (tmp_path / "folder").mkdir()
    assert "you said hello" in chat.say("hello", saved=SavedTurns(tmp_path / "kept.json" / "no"))


@pytest.mark.parametrize("text", ["", '{"a": 1}', "[1]", '[[{"type": "human"}]]', "[[[", "[null]"])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept.json").write_text(text)
    (tmp_path / "kept.json").chmod(0o600)
    with pytest.raises(ConfigurationError, match="leave out --resume"):
        SavedTurns(tmp_path / "kept.json").load()


def test_only_as_many_whole_turns_as_fit_are_remembered(chat: Chat) -> None:
    chat.say("x" * 300, "two", "three", context_tokens=600)
    assert [message.text for message in chat.model.requests[1]] == ["two"]
    assert [message.text for message in chat.model.requests[2]] == ["two", "you said two", "three"]


@pytest.mark.parametrize(
    ("line", "said", "remembered"),
    [
        ("interrupt", "(stopped)", True),
        ("interrupt twice", "(stopped)", True),
        ("refused", "cannot be read", True),
        ("silent", "The model has written no answer.", True),
        ("too long", "the prompt is too long: it has 9000 tokens", False),
    ],
)
def test_a_turn_that_ends_early_is_explained_and_the_chat_goes_on(
    chat: Chat, line: str, said: str, remembered: bool
) -> None:
    assert said in chat.say("one", line, "next")
    before = ["one", "you said one"] if remembered else []
    assert [message.text for message in chat.model.requests[-1]] == [*before, "next"]


def test_an_interrupt_outside_of_an_answer_does_not_end_the_chat(chat: Chat) -> None:
    assert "you said next" in chat.say("one", "next", interrupt_after=1)


def test_ctrl_c_at_the_prompt_says_how_to_leave(chat: Chat) -> None:
    printed = chat.say(KeyboardInterrupt, "next")
    assert "Ctrl-D leaves" in printed
    assert "you said next" in printed


def test_exit_leaves(chat: Chat) -> None:
    chat.say("/exit", "next")
    assert chat.model.requests == []


def test_new_begins_a_new_conversation(chat: Chat) -> None:
    chat.say("one", "/new", "two")
    assert [message.text for message in chat.model.requests[-1]] == ["two"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["/help"], ["/help", "/model", "/tools", "/stats", "/new", "/exit"]),
        (["/model"], ["echo, 20000 tokens", "/model NAME"]),
        (["/tools"], ["look_up  Look up a word."]),
        (
            ["one", "two", "/stats"],
            [
                *("answers:    2 in", "14 of prompts", "6 of answers"),
                "8 blocks, 7 of them free; 3 requests in progress",
            ],
        ),
    ],
)
def test_commands_print(chat: Chat, lines: list[str], said: list[str]) -> None:
    printed = chat.say(*lines)
    assert [each for each in said if each not in printed] == []


def test_an_unknown_command_names_the_nearest(chat: Chat) -> None:
    printed = chat.say("/modle")
    assert "no command /modle. Did you mean /model?" in printed
    assert chat.model.requests == []


def test_a_path_is_no_command(chat: Chat) -> None:
    assert "you said /etc/hosts is short" in chat.say("/etc/hosts is short")


@pytest.mark.parametrize("model", [Echo, Streaming])
def test_escape_sequences_of_the_model_are_shown_and_not_obeyed(chat: Chat, model: type[Echo]) -> None:
    chat.model = model(requests=[])
    printed = chat.say("escapes")
    assert "\u241b]0;title\u2407\u241b[31mred\\x9b2J\\u202eknil" in printed
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed)


def test_text_is_shown_as_it_is_without_markup_and_emoji(chat: Chat) -> None:
    chat.model = Streaming(requests=[])
    assert "you said [bold]:cat:\tx\n" in chat.say("[bold]:cat:\tx")


def test_a_very_long_answer_is_whole(chat: Chat) -> None:
    chat.model = Streaming(requests=[])
    assert LONG in chat.say("long")


@pytest.mark.slow
def test_an_interrupt_frees_the_memory_of_the_generation() -> None:
    from agentrt.adapters.langchain import ChatAgentRT
    from agentrt.examples.chat.conversation import Conversation, SilentView
    from agentrt.runtime import LocalRuntime
    from agentrt.runtime.drafting.drafter import Drafter
    from agentrt.runtime.drafting.drafter_selector import RequestDrafters
    from agentrt.runtime.scheduler.draft import NO_DRAFT, Draft

    interrupted = threading.Event()

    class InterruptingView(SilentView):
        presses = 1  # a second one would end the loop at once, and the answer only with the runner

        def token(self, text: str) -> None:
            if self.presses:
                self.presses -= 1
                signal.raise_signal(signal.SIGINT)

    class HoldsTheAnswer(Drafter):  # on the engine's thread, so that no answer ends before its interrupt
        tokens = 0

        def append(self, token: int) -> None:
            self.tokens += 1
            assert self.tokens < 4 or interrupted.wait(PATIENCE_S)

        def draft(self) -> Draft:
            return NO_DRAFT

    with LocalRuntime.open("nano") as runtime, asyncio.Runner() as runner:
        runtime.drafter_selector = SimpleNamespace(
            select=lambda *_: RequestDrafters([HoldsTheAnswer()]), close=lambda: None
        )
        agent = create_agent(ChatAgentRT(runtime=runtime, max_tokens=1000), [])
        with pytest.raises(KeyboardInterrupt):
            runner.run(Conversation(agent, runtime.context_length).ask("Hello!", InterruptingView()))
        interrupted.set()
        until(lambda: not runtime.statistics().engine.running)
        statistics = runtime.statistics()
        assert statistics.engine.cancelled == 1
        assert statistics.free_blocks == statistics.blocks
