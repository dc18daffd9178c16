"""One question: what is read, what is printed where, and the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from agentrt.cli.chat import command, talk
from agentrt.cli.chat.approval import RefusedWrites
from agentrt.cli.chat.assistant import Assistant
from agentrt.cli.chat.one_shot import answer_once
from agentrt.cli.chat.opener import ModelOpener
from agentrt.cli.chat.question import read_question
from agentrt.errors import ConfigurationError, PromptTooLongError
from agentrt.examples.assistant.sample_data import write_sample_data
from tests.agentrt.cli.chat.echo import ESCAPES, LONG, Echo, Streaming, conversation_with, echo_assistant


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def piped(data: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def ask(runner: asyncio.Runner, question: str, *, as_json: bool = False) -> int:
    """Print the answer of an echo; return the exit code."""
    try:
        assistant = echo_assistant(runner, Streaming(requests=[]))
        answer_once(assistant, conversation_with(assistant), question, as_json=as_json)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


def test_the_question_is_the_argument_or_what_is_piped_in_or_both() -> None:
    assert read_question("why?", Terminal()) == "why?"
    assert read_question("why?", None) == "why?"
    assert read_question("why?", piped(b"")) == "why?"
    assert read_question(None, piped(b"why?\n")) == "why?"
    assert read_question("summarise", piped(b"one\ntwo\n")) == "summarise\n\none\ntwo"


def test_no_question_is_an_error_of_usage() -> None:
    for stdin in (None, piped(b""), piped(b" \n")):
        with pytest.raises(typer.BadParameter, match="there is none"):
            read_question(None, stdin)


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert read_question(None, piped(b"caf\xe9")) == "caf\ufffd"
    assert read_question(None, piped(b"\xef\xbb\xbfwhy?")) == "why?"


def test_what_is_no_text_is_refused_and_no_more_than_8_mib_are_read() -> None:
    with pytest.raises(ConfigurationError, match="not text"):
        read_question("what is this?", piped(b"\x7fELF\0\0"))
    stdin = piped(b"x" * (8 * 2**20 + 100))
    with pytest.raises(ConfigurationError, match="more than 8 MiB"):
        read_question("summarise", stdin)
    assert len(stdin.buffer.read()) == 99


@pytest.mark.parametrize(
    ("question", "answer"), [("why?", "you said why?\n"), ("look", "you said roof is a word\n")]
)
def test_the_answer_alone_is_printed(
    runner: asyncio.Runner, capsys: pytest.CaptureFixture[str], question: str, answer: str
) -> None:
    assert ask(runner, question) == 0
    assert capsys.readouterr() == (answer, "")


def test_a_pipe_receives_the_answer_as_it_is(
    runner: asyncio.Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(runner, "escapes")
    ask(runner, "long")
    assert capsys.readouterr().out == f"{ESCAPES}\n{LONG}\n"


def test_a_terminal_receives_text_as_it_comes_without_escape_sequences(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    ask(runner, "look")
    ask(runner, "escapes")
    assert terminal.getvalue() == (
        "you said roof is a word\n\u241b]0;title\u2407\u241b[31mred\\x9b2J\\u202eknil\n"
    )


@pytest.mark.parametrize(
    ("question", "problem"),
    [("silent", "no answer"), ("cut off", "--max-tokens"), ("look for ever", "again and again")],
)
def test_an_answer_that_is_empty_or_cut_off_has_exit_code_1(
    question: str, problem: str, runner: asyncio.Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(runner, question) == 1
    assert problem in capsys.readouterr().err


def test_what_the_agent_says_when_it_stops_the_model_is_no_answer(
    runner: asyncio.Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(runner, "look for ever", as_json=True) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["answer"], report["finish_reason"]) == ("", "tool_calls")
    assert len(report["tool_calls"]) == 3


def test_a_write_without_a_terminal_does_not_run_and_the_message_names_the_option(
    runner: asyncio.Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = RefusedWrites()
    assistant = echo_assistant(runner, Streaming(requests=[]), why_not=refused.why_not)
    with pytest.raises(typer.Exit) as ended:
        answer_once(assistant, conversation_with(assistant), "write", refused.calls, as_json=True)
    assert ended.value.exit_code == 1
    printed, errors = capsys.readouterr()
    (called,) = json.loads(printed)["tool_calls"]
    assert "could not be asked" in called["output"]
    assert 'write(word="roof") did not run' in errors
    assert "--allow-writes" in errors
    answer_once(assistant, conversation_with(assistant), "look", [], as_json=False)  # what only reads runs


def test_a_write_that_fails_has_exit_code_1(
    runner: asyncio.Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    async def decline(call: str) -> str:
        return "the disk is full"

    assistant = echo_assistant(runner, Streaming(requests=[]), why_not=decline)
    with pytest.raises(typer.Exit) as ended:
        answer_once(assistant, conversation_with(assistant), "write", as_json=True)
    assert ended.value.exit_code == 1
    assert "write did not do its work" in capsys.readouterr().err


def test_ctrl_c_has_exit_code_130(runner: asyncio.Runner) -> None:
    assistant = echo_assistant(runner, Echo(requests=[]))
    with pytest.raises(typer.Exit) as ended:
        answer_once(assistant, conversation_with(assistant), "interrupt", as_json=False)
    assert ended.value.exit_code == 130


def test_a_request_that_cannot_be_answered_is_an_error(runner: asyncio.Runner) -> None:
    with pytest.raises(PromptTooLongError):
        ask(runner, "too long")


def test_json_has_the_answer_and_its_calls(
    runner: asyncio.Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(runner, "look", as_json=True) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer.pop("seconds") >= 0
    assert answer == {
        "model": "echo",
        "answer": "you said roof is a word",
        "finish_reason": "stop",
        "tool_calls": [
            {"name": "look_up", "arguments": {"word": "roof"}, "output": "roof is a word"},
        ],
        "prompt_tokens": 14,
        "answer_tokens": 6,
    }


@pytest.mark.parametrize("watched", [True, False])
def test_what_is_read_of_own_data_is_said_on_standard_error_if_that_is_a_terminal(
    runner: asyncio.Runner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    watched: bool,
) -> None:
    @contextlib.contextmanager
    def opened(*_: object, **__: object) -> Iterator[Assistant]:
        echo = echo_assistant(runner, Echo(requests=[]))
        yield dataclasses.replace(echo, told=["Reads 2 notes in ~."])

    monkeypatch.setattr(talk, "open_assistant", opened)
    monkeypatch.setattr(ModelOpener, "begin", lambda *_: None)
    for module in (command, talk):
        monkeypatch.setattr(module, "is_terminal", lambda file: watched and file is sys.stderr)
    monkeypatch.setattr(sys, "stdin", None)
    command.chat("why?")
    assert capsys.readouterr() == ("you said why?\n", "Reads 2 notes in ~.\n" * watched)


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``python -m agentrt chat``."""
    command = [sys.executable, "-m", "agentrt", "chat", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)


def errors_of(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of its standard error, but for the one that depends on the machine."""
    # On a busy machine the profile is measured anew, and may be inexact: that is said.
    return [line for line in ended.stderr.splitlines() if not line.startswith("The profile of nano was ")]


@pytest.mark.check
@pytest.mark.slow
def test_a_real_model_answers_an_argument() -> None:
    ended = run("What is the weather in Oslo?", "--weather-delay", "0")
    assert ended.stdout.startswith("In Oslo it is ")
    assert ended.stdout.count("\n") == 1
    assert (errors_of(ended), ended.returncode) == ([], 0)


@pytest.mark.check
@pytest.mark.slow
@pytest.mark.parametrize("allowed", [False, True])
def test_a_piped_question_writes_only_with_the_option(tmp_path: Path, allowed: bool) -> None:
    write_sample_data(tmp_path / "data", dt.date.today())
    before = notes_in(tmp_path)
    options = ["--data", str(tmp_path / "data"), *(["--allow-writes"] if allowed else [])]
    ended = run(*options, stdin="Create a note: buy milk\n")
    assert notes_in(tmp_path)[len(before) :] == ["buy milk"] * allowed
    assert ended.returncode == (0 if allowed else 1)
    assert ('create_note(text="buy milk") did not run' in ended.stderr) is not allowed
    assert ended.stdout.count("\n") == 1


def notes_in(folder: Path) -> list[str]:
    """Return the texts of the notes in ``folder/data``, new ones last."""
    files = (folder / "data" / "notes").iterdir()
    return [file.read_text().strip() for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)]


@pytest.mark.check
@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_it_quietly() -> None:
    command = f"{sys.executable} -m agentrt chat 'Hello!' | true"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert errors_of(ended) == []
