"""The demo from end to end, on the real nano model."""

import dataclasses
import datetime as dt
import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from agentrt.cli.main import app
from agentrt.errors import AgentRTError, ConfigurationError, EngineFailedError, ModelNotFoundError
from agentrt.examples.assistant.notes import Notes
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.speculation_counter import SpeculationCounts
from agentrt.examples.assistant.view import PlainView
from agentrt.examples.demo import comparison as comparison_module
from agentrt.examples.demo.comparison import Comparison, Turn, compare

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, str]:
    """A comparison over few requests, and the lines printed meanwhile."""
    sample = tmp_path_factory.mktemp("demo") / "sample"
    write_sample_data(sample, dt.date.today())
    printed = io.StringIO()
    requests = [
        "What is the weather in Lisbon?",
        "What does my note about lasagne recipe say?",
        "Write a note: buy candles and a new kettle",
    ]
    return compare(
        sample, 0.05, PlainView(Console(file=printed, width=200)), requests=requests
    ), printed.getvalue()


def test_both_agents_say_the_same(comparison: tuple[Comparison, str]) -> None:
    compared, _ = comparison
    assert compared.differences() == ""
    assert [turn.request for turn in compared.plain] == [turn.request for turn in compared.speculative]


def test_the_agent_uses_its_tools(comparison: tuple[Comparison, str]) -> None:
    weather, note, write = (turn.transcript for turn in comparison[0].plain)
    assert 'call get_weather {"city": "Lisbon"}' in weather
    assert "call search_notes" in note
    assert 'call read_note {"id": "n1"}' in note
    assert "Bake for forty minutes" in note.splitlines()[-1]
    assert 'call create_note {"text": "buy candles and a new kettle"}' in write
    assert "n13" in write.splitlines()[-1]


def test_every_call_that_may_start_early_is_a_hit_or_a_miss(comparison: tuple[Comparison, str]) -> None:
    compared, printed = comparison
    assert all(turn.counts == SpeculationCounts() for turn in compared.plain)
    # Whether a draft comes in time depends on the machine: get_weather, search_notes and read_note, no write.
    assert [turn.counts.hits + turn.counts.misses for turn in compared.speculative] == [1, 2, 0]
    speculated = sum(turn.counts.hits + turn.counts.wasted for turn in compared.speculative)
    assert not speculated or " started speculatively" in printed


def test_all_background_tasks_are_done(comparison: tuple[Comparison, str]) -> None:
    compared, printed = comparison
    assert sorted(compared.digest) == sorted(f"m{number}" for number in range(4, 13))
    assert len(compared.index) == 10
    assert "tulips" in compared.index["garden/plan.md"]
    assert compared.tokens_per_second > 0
    assert printed.count("background: digest new mail, 9 of 9 done") == 1
    assert printed.count("background: index changed files, 10 of 10 done") == 1


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """Data with one of each thing, so that there is little to do in the background."""
    folder = tmp_path / "little"
    write_sample_data(tmp_path / "sample", dt.date.today())
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "seeds.txt").write_text("We still have beans and dill.\n")
    Notes(folder / "notes.db").create("Practice the bridge slowly.", "Guitar lesson")
    shutil.copy(tmp_path / "sample" / "calendar.ics", folder)
    newest = (tmp_path / "sample" / "mail.mbox").read_bytes().split(b"From MAILER-DAEMON")[-1]
    (folder / "mail.mbox").write_bytes(b"From MAILER-DAEMON" + newest)
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_killed_demo_does_not_disturb_the_next(little: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = contents(little)

    quick = ["--weather-delay", "0.05", "--pace", "0"]

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
        assert any("> Hello!" in line for line in killed.stdout)
        killed.send_signal(signal.SIGKILL)
    assert list(temporary.iterdir())
    with start() as demo:
        printed, _ = demo.communicate(timeout=100)
    assert demo.returncode == 0, printed
    introduction = " ".join(printed.split())
    assert "a demonstration model" in introduction
    assert "waits 0.05 s" in introduction
    assert "Both agents said and did the same, word for word." in printed
    assert list(temporary.iterdir()) == []
    assert contents(little) == before  # though a note was written


def test_a_background_task_that_fails_ends_the_demo_with_its_error(
    little: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> dict[str, str]:
        raise EngineFailedError("the engine stopped. Open the runtime again.")

    monkeypatch.setattr(comparison_module, "digest_mail", fail)
    with pytest.raises(EngineFailedError, match="the engine stopped"):
        compare(little, 0, PlainView(Console(file=io.StringIO())), requests=["Hello!"])


@pytest.mark.parametrize(
    ("transcript", "calls", "exact", "code", "text"),
    [
        ("ai Bye!", 1, True, 1, "+ai Bye!"),
        ("ai Bye!", 1, False, 0, "+ai Bye!"),
        ("ai Hi!", 1, True, 0, "word for word"),
        ("ai Hi!", 0, True, 1, "The model called no tool"),
    ],
)
def test_agents_that_differ_or_call_no_tool_are_an_error_exit(
    little: Path,
    monkeypatch: pytest.MonkeyPatch,
    transcript: str,
    calls: int,
    exact: bool,
    code: int,
    text: str,
) -> None:
    turn = Turn("Hello!", "ai Hi!", 0.2, 1, 0.1, 0.0, calls, SpeculationCounts())
    other = dataclasses.replace(turn, transcript=transcript)
    comparison = Comparison((turn,), (other,), {}, {}, 1.0, exact)
    monkeypatch.setattr(comparison_module, "compare", lambda *_, **__: comparison)
    result = CliRunner().invoke(app, ["demo", "--data", str(little)])
    assert result.exit_code == code
    assert text in result.output


def test_chat_answers_from_the_terminal() -> None:
    result = CliRunner().invoke(
        app, ["chat", "--weather-delay", "0"], input="What is the weather in Lisbon?\n"
    )
    assert result.exit_code == 0, result.output
    assert '* get_weather(city="Lisbon")' in result.output
    assert "In Lisbon it is" in result.output


def test_chat_writes_into_the_folder_of_the_user(little: Path) -> None:
    result = CliRunner().invoke(app, ["chat", "--data", str(little)], input="Write a note: buy candles\n")
    assert result.exit_code == 0, result.output
    assert [note.text for note in Notes(little / "notes.db").all()][1:] == ["buy candles"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("chat", "--model", "no/such/model"), ModelNotFoundError),
        (("demo", "--model", "no/such/model"), ModelNotFoundError),
        (("demo", "--data", "{empty}"), ConfigurationError),
        (("chat", "--data", "{empty}"), ConfigurationError),
        (("demo", "--weather-delay", "-1"), ConfigurationError),
    ],
)
def test_what_cannot_work_is_a_typed_error(
    tmp_path: Path, arguments: tuple[str, ...], error: type[AgentRTError]
) -> None:
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, [part.format(empty=tmp_path / "empty") for part in arguments])
    assert isinstance(result.exception, error)
