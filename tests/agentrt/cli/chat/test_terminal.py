"""Chats on a pseudo terminal: keys, Ctrl-C, Ctrl-D, resizing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agentrt.cli.chat.pseudo_terminal import CTRL_C, CTRL_D, PROMPT, PseudoTerminal, terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def echo() -> Iterator[PseudoTerminal]:
    with terminal("-m", "tests.agentrt.cli.chat.echo_chat") as shown:
        shown.expect(PROMPT)
        yield shown


def goes_on_until_ctrl_d(echo: PseudoTerminal) -> None:
    echo.expect(PROMPT)
    echo.type("still there?\r")
    echo.expect("you said still there?")
    echo.expect(PROMPT)
    echo.type(CTRL_D)
    assert echo.wait() == 0


def test_ctrl_c_ends_an_answer_and_ctrl_d_leaves(echo: PseudoTerminal) -> None:
    echo.type("for ever\r")
    echo.expect("it begins")
    echo.type(CTRL_C)
    echo.expect("(stopped)")
    goes_on_until_ctrl_d(echo)


@pytest.mark.check
def test_ctrl_c_at_the_empty_prompt_says_how_to_leave(echo: PseudoTerminal) -> None:
    echo.type(CTRL_C)
    echo.expect("/exit or Ctrl-D leaves.")
    echo.expect(PROMPT)
    echo.type("/exit\r")
    assert echo.wait() == 0


def test_a_tool_that_writes_asks_first(echo: PseudoTerminal) -> None:
    echo.type("write\r")
    echo.expect('run write(word="roof")?')
    echo.type("y\r")
    echo.expect("you said roof is written")
    echo.expect(PROMPT)
    echo.type("write\r")
    echo.expect('run write(word="roof")?')
    echo.type("\r")
    echo.expect("the user has declined this call")
    echo.expect(PROMPT)
    echo.type("look\r")
    assert "[y/N]" not in echo.expect("you said roof is a word")


@pytest.mark.check
def test_ctrl_c_during_an_approval_ends_the_answer_and_nothing_runs(echo: PseudoTerminal) -> None:
    echo.type("write\r")
    echo.expect('run write(word="roof")?')
    echo.type(CTRL_C)
    assert "is written" not in echo.expect("(stopped)")
    goes_on_until_ctrl_d(echo)


@pytest.mark.check
def test_a_terminal_that_is_resized_shows_the_whole_answer(echo: PseudoTerminal) -> None:
    echo.resize(10, 20)
    echo.type("resized\r")
    echo.expect("you said resized")
    echo.expect(PROMPT)
    echo.type("for ever\r")
    echo.expect("it begins")
    echo.resize(50, 200)
    echo.type(CTRL_C)
    echo.expect("(stopped)")
    echo.expect(PROMPT)
    echo.type("long\r")
    assert echo.expect(" s)").count("word ") == 40_000


@pytest.mark.check
def test_one_question_on_a_terminal_asks_before_it_writes() -> None:
    question = ("-m", "agentrt", "chat", "Create a note: buy milk")
    with terminal(*question) as shown:
        shown.expect('run create_note(text="buy milk")?')
        shown.type("y\r")
        shown.expect("Saved as a note: buy milk")
        assert shown.wait() == 0
    with terminal(*question) as shown:
        shown.expect('run create_note(text="buy milk")?')
        shown.type("\r")
        shown.expect("You have declined it: nothing was done.")
        assert shown.wait() == 0
    with terminal(*question) as shown:
        shown.expect('run create_note(text="buy milk")?')
        shown.type(CTRL_C)
        assert shown.wait() == 130
    with terminal(*question, "--allow-writes") as shown:
        assert "[y/N]" not in shown.expect("Saved as a note: buy milk")
        assert shown.wait() == 0


@pytest.mark.check
def test_the_question_is_not_part_of_an_answer_that_is_piped_on(tmp_path: Path) -> None:
    command = f"{sys.executable} -m agentrt chat 'Create a note: buy milk' > {tmp_path / 'answer'}"
    with terminal("-c", f"import os; os.execvp('sh', ['sh', '-c', {command!r}])") as shown:
        shown.expect('run create_note(text="buy milk")?')
        shown.type("y\r")
        assert shown.wait() == 0
    assert (tmp_path / "answer").read_text().startswith("Saved as a note: buy milk")


@pytest.mark.check
def test_a_chat_with_a_real_model() -> None:
    with terminal("-m", "agentrt", "chat", "--weather-delay", "30") as shown:
        shown.expect("Download it? [y/N]")  # asked once: later chats of this user have nano
        shown.type("n\r")
        shown.expect("Ctrl-D leaves.")
        shown.expect(PROMPT)
        shown.type("What is the weather in Oslo?\r")
        shown.expect('* get_weather(city="Oslo")')
        shown.type(CTRL_C)
        shown.expect("(stopped)")
        shown.expect(PROMPT)
        shown.type("/stats\r")
        shown.expect("0 requests in progress")
        shown.expect(PROMPT)
        shown.type("Hello!\r")
        shown.expect(" s)")
        shown.expect(PROMPT)
        shown.type(CTRL_D)
        assert shown.wait() == 0


WARNS = """
import asyncio, logging, threading
from agentrt.cli.chat.line_editor import LineEditor

with asyncio.Runner() as runner:
    editor = LineEditor(runner, {})
    warn = threading.Thread(target=logging.getLogger("agentrt").warning, args=["be careful"])
    buffer = editor._session.default_buffer
    buffer.on_text_changed += lambda _: warn.start() if buffer.text == "wh" else None
    print("read", editor.read())
"""


def test_a_warning_of_another_thread_stands_above_what_is_typed() -> None:
    with terminal("-c", WARNS) as shown:
        shown.expect(PROMPT)
        shown.type("wh")
        shown.expect("be careful\r\n")
        shown.expect("> wh")
        shown.type("y\r")
        shown.expect("read why")
        assert shown.wait() == 0
