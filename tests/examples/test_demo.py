"""The demo from end to end, on the real nano model."""

import dataclasses
import datetime as dt
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from agentrt.cli.main import app
from agentrt.errors import AgentRTError, ConfigurationError, ModelNotFoundError
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.services import Latencies
from agentrt.examples.demo import background as background_module
from agentrt.examples.demo import comparison as comparison_module
from agentrt.examples.demo import run as run_module
from agentrt.examples.demo.background import Waits
from agentrt.examples.demo.comparison import Comparison, Turn
from agentrt.examples.demo.measures import SpeculationCounts
from agentrt.examples.demo.run import Result, run_demo
from agentrt.examples.demo.view import PlainView

pytestmark = pytest.mark.real_model

REQUESTS = [
    "What is the weather in Paris and Rome?",
    "What does the mail about roof repair say?",
    "What does the mail about overdue book say?",
    "Search the web for kayak rental",
    "Write a note: buy candles and a new kettle",
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, str]:
    """The result of a demo with few requests, and the lines printed meanwhile.

    The model is slowed down, so that there is something to hide tools behind.
    """
    sample = tmp_path_factory.mktemp("demo") / "sample"
    write_sample_data(sample, dt.date.today())
    printed = io.StringIO()
    view = PlainView(Console(file=printed, width=200))
    with pytest.MonkeyPatch.context() as patch:
        for module in (background_module, comparison_module):
            patch.setattr(module, "_LONGEST_S", float("inf"))  # however slow the machine is
        measured = run_demo([sample], Latencies().times(0.2), view, pace=100, requests=REQUESTS)
    return measured, printed.getvalue()


def test_both_agents_say_the_same_with_tools(result: tuple[Result, str]) -> None:
    comparison = result[0].comparison
    assert comparison.differences() == ""
    assert [turn.request for turn in comparison.plain] == REQUESTS
    assert [turn.request for turn in comparison.speculative] == REQUESTS
    weather, mail, _, web, write = (turn.transcript for turn in comparison.plain)
    assert 'call get_weather {"city": "Paris"}' in weather
    assert 'call get_weather {"city": "Rome"}' in weather
    assert "call search_mail" in mail
    assert 'call read_mail {"id": "m1"}' in mail
    assert "They need the ladder" in mail.splitlines()[-1]
    assert 'call search_web {"query": "kayak rental"}' in web
    assert "35 euros a day" in web.splitlines()[-1]
    assert 'call create_note {"text": "buy candles and a new kettle"}' in write
    assert "n13" in write.splitlines()[-1]


def test_every_call_that_may_be_speculated_on_is_a_hit_or_a_miss(result: tuple[Result, str]) -> None:
    comparison, printed = result[0].comparison, result[1]
    assert all(turn.counts == SpeculationCounts() for turn in comparison.plain)
    # Whether a draft comes in time depends on the machine.
    counts = [turn.counts for turn in comparison.speculative]
    assert [one.hits + one.misses for one in counts] == [2, 2, 2, 1, 0]
    speculated = sum(one.hits + one.wasted for one in counts)
    assert not speculated or " starts, before the model has called it" in printed


def test_the_questions_beside_digests_are_answered_under_both_policies(result: tuple[Result, str]) -> None:
    measured, printed = result
    for waits in (measured.fcfs, measured.agentrt):
        assert len(waits.first_token_s) == 5
        assert min(waits.first_token_s) > 0
        assert waits.digests > 0
    assert printed.count(": 5 questions answered") == 2


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """Data with one of each thing, so that there is little to do in the background."""
    folder = tmp_path / "little"
    write_sample_data(tmp_path / "sample", dt.date.today())
    folder.mkdir()
    (folder / "seeds.txt").write_text("We still have beans and dill.\n")
    (folder / "Guitar lesson.md").write_text("Practice the bridge slowly.\n")
    shutil.copy(tmp_path / "sample" / "calendar.ics", folder)
    newest = (tmp_path / "sample" / "mail.mbox").read_bytes().split(b"From MAILER-DAEMON")[-1]
    (folder / "mail.mbox").write_bytes(b"From MAILER-DAEMON" + newest)
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_no_further_request_is_asked_when_time_is_up(little: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_module, "_LONGEST_S", 0.0)
    view = PlainView(Console(file=io.StringIO()))
    comparison = run_demo([little], Latencies().times(0), view, requests=REQUESTS).comparison
    assert [turn.request for turn in comparison.plain] == REQUESTS[:1]


def test_an_escape_sequence_in_a_mail_is_shown_and_not_obeyed(little: Path) -> None:
    mail = EmailMessage()
    mail["From"], mail["Date"], mail["Subject"] = "Eve", "Mon, 02 Nov 2026 09:00:00 +0000", "Pottery class"
    mail.set_content(
        "Bring an apron\x9b2J\u202e and \x1b]0;owned\x07clay."
    )  # JSON text has the first two as they are
    (little / "mail.mbox").write_bytes(b"From MAILER-DAEMON\n" + mail.as_bytes() + b"\n")
    printed = io.StringIO()
    view = PlainView(Console(file=printed, width=200))
    run_demo([little], Latencies().times(0), view, requests=["What does the mail about pottery class say?"])
    assert "* read_mail(" in printed.getvalue()
    assert "Bring an apron\\x9b2J\\u202e" in printed.getvalue()
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed.getvalue())


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_killed_demo_does_not_disturb_the_next(little: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = contents(little)

    quick = ["--latency", "0.1", "--pace", "0"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "agentrt", "demo", *quick, "--data", str(little)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
        )

    with start() as killed:
        assert killed.stdout is not None
        assert any("> What" in line for line in killed.stdout)
        killed.send_signal(signal.SIGKILL)
    assert list(temporary.iterdir())
    with start() as demo:
        printed, _ = demo.communicate(timeout=200)
    assert demo.returncode == 0, printed
    introduction = " ".join(printed.split())
    assert "a demonstration model" in introduction
    assert "a web page 80 ms" in introduction
    assert "0  differences in what the two agents said and did." in printed
    assert list(temporary.iterdir()) == []
    assert contents(little) == before  # though a note was written


@pytest.mark.parametrize(
    ("transcript", "calls", "exact", "code", "text"),
    [
        ("ai Bye!", 1, True, 1, "+ai Bye!"),
        ("ai Bye!", 1, False, 0, "+ai Bye!"),
        ("ai Hi!", 1, True, 0, "0  differences"),
        ("ai Hi!", 0, True, 1, "The model called no tool"),
    ],
)
def test_agents_that_differ_or_call_no_tool_are_an_error_exit(
    little: Path, monkeypatch: Any, transcript: str, calls: int, exact: bool, code: int, text: str
) -> None:
    request = "Hello! " * 20 + "Bye."
    turn = Turn(request, "ai Hi!", 0.2, 0.1, 0.0, calls, SpeculationCounts())
    other = dataclasses.replace(turn, transcript=transcript)
    waits = Waits((0.1,), 1, 1.0)
    measured = Result(Comparison((turn,), (other,), exact), waits, waits)
    monkeypatch.setattr(run_module, "run_demo", lambda *_, **__: measured)
    report = little / "demo.json"
    result = CliRunner().invoke(app, ["demo", "--data", str(little), "--json", str(report)])
    assert result.exit_code == code
    assert text in result.output
    assert f"{request}  " in result.output, "it is one line"
    found = json.loads(report.read_text("utf-8"))["figures"]
    figures = {name: estimate["value"] for name, estimate in found.items()}
    assert figures["transcripts_equal"] == (transcript == "ai Hi!")


def test_chat_answers_from_the_terminal() -> None:
    result = CliRunner().invoke(
        app, ["chat", "--weather-delay", "0"], input="What is the weather in Lisbon?\n"
    )
    assert result.exit_code == 0, result.output
    assert "In Lisbon it is" in result.output


def test_chat_writes_into_the_folder_of_the_user(little: Path) -> None:
    arguments = ["chat", "--data", str(little), "--allow-writes"]
    result = CliRunner().invoke(app, arguments, input="Write a note: buy candles\n")
    assert result.exit_code == 0, result.output
    assert (little / "buy candles.md").read_text() == "buy candles\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("chat", "--model", "no/such/model"), ModelNotFoundError),
        (("demo", "--model", "no/such/model"), ModelNotFoundError),
        (("demo", "--data", "{empty}"), ConfigurationError),
        (("chat", "--data", "{empty}"), ConfigurationError),
        (("demo", "--latency", "100"), ConfigurationError),
    ],
)
def test_what_cannot_work_is_a_typed_error(
    tmp_path: Path, arguments: tuple[str, ...], error: type[AgentRTError]
) -> None:
    (tmp_path / "empty").mkdir()
    named = [part.format(empty=tmp_path / "empty") for part in arguments]
    result = CliRunner().invoke(app, named, input="Hello!\n")
    assert isinstance(result.exception, error)
