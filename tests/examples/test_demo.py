"""The demo from end to end, on the real nano model."""

import datetime as dt
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from agentrt.errors import EngineFailedError
from agentrt.examples.assistant import comparison as comparison_module
from agentrt.examples.assistant.comparison import Comparison, compare
from agentrt.examples.assistant.guesses import Guesses
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.view import PlainView


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


def test_speculation_hits_and_the_plain_agent_does_not_guess(comparison: tuple[Comparison, str]) -> None:
    compared, printed = comparison
    assert all(turn.guesses == Guesses() for turn in compared.plain)
    assert compared.speculative[0].guesses.hits == 1
    assert "+ get_weather started early" in printed


def test_all_background_tasks_are_done(comparison: tuple[Comparison, str]) -> None:
    compared, printed = comparison
    assert sorted(compared.digest) == sorted(f"m{number}" for number in range(4, 13))
    assert len(compared.index) == 10
    assert "tulips" in compared.index["garden/plan.md"]
    assert compared.tokens_per_second > 0
    assert printed.count("background: digest new mail, 9 of 9 done") == 1
    assert printed.count("background: index changed files, 10 of 10 done") == 1


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "agentrt", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), "TEMP": str(folder)},
    )


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_killed_demo_does_not_disturb_the_next(tmp_path: Path) -> None:
    with start(tmp_path, "demo", "--weather-delay", "0.05") as killed:
        assert killed.stdout is not None
        assert any("> Hello!" in line for line in killed.stdout)
        killed.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir())
    with start(tmp_path, "demo", "--weather-delay", "0.05") as demo:
        printed, _ = demo.communicate(timeout=100)
    assert demo.returncode == 0, printed
    introduction = " ".join(printed.split())
    assert "a demonstration model" in introduction
    assert "waits 0.05 s" in introduction
    assert "Both agents said and did the same, word for word." in printed
    assert list(tmp_path.iterdir()) == []


def test_the_data_of_the_user_is_not_changed(tmp_path: Path) -> None:
    data = tmp_path / "mine"
    write_sample_data(data, dt.date.today())
    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    view = PlainView(Console(file=io.StringIO()))
    compare(data, 0, view, requests=["Write a note: buy candles"])
    assert {file: file.read_bytes() for file in data.rglob("*") if file.is_file()} == before


def test_a_background_task_that_fails_ends_the_demo_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> dict[str, str]:
        raise EngineFailedError("the engine stopped. Open the runtime again.")

    monkeypatch.setattr(comparison_module, "digest_mail", fail)
    write_sample_data(tmp_path / "sample", dt.date.today())
    with pytest.raises(EngineFailedError, match="the engine stopped"):
        compare(tmp_path / "sample", 0, PlainView(Console(file=io.StringIO())), requests=["Hello!"])


def test_chat_answers_from_the_terminal(tmp_path: Path) -> None:
    with start(tmp_path, "chat", "--weather-delay", "0") as chat:
        printed, _ = chat.communicate("What is the weather in Lisbon?\n", timeout=60)
    assert chat.returncode == 0, printed
    assert '* get_weather(city="Lisbon")' in printed
    assert "In Lisbon it is" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("chat", "--model", "no/such/model"), "no/such/model"),
        (("demo", "--data", "{empty}"), "lacks notes.db"),
        (("chat", "--data", "{empty}"), "lacks notes.db"),
        (("demo", "--data", "no/such/folder"), "does not exist"),
    ],
)
def test_what_cannot_work_is_one_clear_message(
    tmp_path: Path, arguments: tuple[str, ...], error: str
) -> None:
    (tmp_path / "empty").mkdir()
    with start(tmp_path, *(part.format(empty=tmp_path / "empty") for part in arguments)) as command:
        printed, _ = command.communicate(timeout=60)
    assert command.returncode == 2
    assert error in printed
    assert "Traceback" not in printed
