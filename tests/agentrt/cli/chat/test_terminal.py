"""Chats on a pseudo terminal: keys, Ctrl-C, Ctrl-D, resizing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agentrt.cli.chat.pseudo_terminal import CTRL_C, CTRL_D, PROMPT, PseudoTerminal, terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def echo() -> Iterator[PseudoTerminal]:
    with terminal("-m", "tests.agentrt.cli.chat.echo_chat") as shown:
        shown.expect(PROMPT)
        yield shown


def test_ctrl_c_ends_an_answer_and_ctrl_d_leaves(echo: PseudoTerminal) -> None:
    echo.type("for ever\r")
    echo.expect("it begins")
    echo.type(CTRL_C)
    echo.expect("(stopped)")
    echo.expect(PROMPT)
    echo.type("still there?\r")
    echo.expect("you said still there?")
    echo.expect(PROMPT)
    echo.type(CTRL_D)
    assert echo.wait() == 0


def test_ctrl_c_twice_ends_an_answer(echo: PseudoTerminal) -> None:
    echo.type("for ever\r")
    echo.expect("it begins")
    echo.type(CTRL_C + CTRL_C)
    echo.expect(PROMPT)
    echo.type("still there?\r")
    echo.expect("you said still there?")


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


def test_ctrl_c_during_an_approval_ends_the_answer_and_nothing_runs(echo: PseudoTerminal) -> None:
    echo.type("write\r")
    echo.expect('run write(word="roof")?')
    echo.type(CTRL_C)
    assert "is written" not in echo.expect("(stopped)")
    echo.expect(PROMPT)
    echo.type("still there?\r")
    echo.expect("you said still there?")
    echo.expect(PROMPT)
    echo.type(CTRL_D)
    assert echo.wait() == 0


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
    assert echo.expect("predicted)").count("word ") == 40_000


def test_no_escape_sequence_of_the_model_reaches_the_terminal(echo: PseudoTerminal) -> None:
    echo.type("escapes\r")
    echo.expect("red")
    echo.expect(PROMPT)
    assert b"\x1b]0;" not in echo.output
    assert b"\x1b[31m" not in echo.output


def test_a_chat_with_a_real_model() -> None:
    with terminal("-m", "agentrt", "chat", "--weather-delay", "30") as shown:
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
