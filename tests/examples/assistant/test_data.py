import datetime as dt
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.examples.assistant import data as data_module
from agentrt.examples.assistant.data import PersonalData, copy_data, workspace
from agentrt.examples.assistant.requests import demo_requests, requests_about
from agentrt.examples.assistant.sample_data import write_sample_data

TODAY = dt.date(2026, 11, 18)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    write_sample_data(tmp_path / "sample", TODAY)
    return tmp_path / "sample"


@pytest.fixture
def data(sample: Path) -> Iterator[PersonalData]:
    with closing(PersonalData.open(sample, today=lambda: TODAY)) as opened:
        yield opened


def test_sample_data_has_something_of_everything(data: PersonalData) -> None:
    assert len(data.notes.all()) == 12
    assert len(data.mail.all()) == 12
    assert 0 < len(data.mail.unread()) < 12
    assert len(data.files.all()) == 10
    assert [event.title for event in data.calendar.events_on("tomorrow")] == [
        "Dentist",
        "Dinner at the Green Lantern",
    ]
    assert [event.title for event in data.calendar.events_on("in two days")][-1] == "Swimming"
    assert data.calendar.events_on("in 10 days")[0].title == "Cabin weekend"
    texts = [note.text for note in data.notes.all()] + [mail.body for mail in data.mail.all()]
    texts += [data.files.read(path).text for path in data.files.all()]
    for text in texts:
        assert 5 <= len(text.split()) <= 40
        assert text.isascii()


def test_requests_are_made_from_the_data(data: PersonalData) -> None:
    requests = requests_about(data)
    assert "What does the mail about roof repair say?" in requests
    assert "What does my note about bicycle repair say?" in requests
    assert "Read the file club/minutes.txt" in requests
    assert len(requests) == 6
    assert not any("Hello" in request or "light" in request for request in requests)  # no tool serves these
    requests = demo_requests(data)  # chains, two calls at once, and a write
    assert len(requests) == len(set(requests)) == 13
    assert sum("mail about" in request for request in requests) == 3
    assert any("Paris and Rome" in request for request in requests)
    assert requests[-1].startswith("Write a note")


def test_requests_about_little_data(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# ?!\n\nnothing")
    (tmp_path / "b.md").write_text("# Re: AW, shopping: (milk) & 4 more things\n\nbuy milk")
    (tmp_path / "mail.mbox").touch()
    with closing(PersonalData.open(tmp_path)) as data:
        asked = [requests_about(data), demo_requests(data)]
    for requests in asked:
        assert "What does my note about aw shopping milk 4 say?" in requests
        assert not any(re.search("mail about|Read the file|calendar", request) for request in requests)


def test_a_copy_is_complete_and_changing_it_leaves_the_original(sample: Path, data: PersonalData) -> None:
    (sample / "unrelated").write_bytes(b"not copied\0")
    copy_data([sample], sample.parent / "copy")
    with closing(PersonalData.open(sample.parent / "copy", today=lambda: TODAY)) as copied:
        copied.notes.create("only here")
        copied.calendar.add("only here", "Friday", "15:00")
        assert (len(copied.notes.all()), len(data.notes.all())) == (13, 12)
        assert len(copied.calendar.events_on("Friday")) == len(data.calendar.events_on("Friday")) + 1
        assert copied.files.all() == data.files.all()
        assert [mail.id for mail in copied.mail.unread()] == [mail.id for mail in data.mail.unread()]
    assert not (sample.parent / "copy" / "unrelated").exists()


def test_what_cannot_be_copied_is_a_clear_error(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (sample.parent / "copy").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"cannot copy .*sample.*Make its files readable"):
        copy_data([sample], sample.parent / "copy")
    monkeypatch.setattr(data_module, "_LARGEST_COPY", 1000)
    with pytest.raises(ConfigurationError, match=r"accepts up to 0 MB\. Give less"):
        copy_data([sample], sample.parent / "large copy")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_workspace_is_removed_even_after_an_error(temporary: Path) -> None:
    def fail() -> None:
        with workspace() as folder:
            assert folder.parent == temporary
            (folder / "x").mkdir()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(temporary.iterdir()) == []


OWNER = """
import sys, tempfile
from agentrt.examples.assistant.data import workspace
tempfile.tempdir = sys.argv[1]
with workspace() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_the_workspace_of_a_killed_process_is_removed_by_the_next_and_no_other(temporary: Path) -> None:
    def start() -> tuple[subprocess.Popen[str], Path]:
        command = [sys.executable, "-c", OWNER, str(temporary)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    (killed, left), (running, used) = start(), start()
    with killed, running:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.exists()
        with workspace():
            assert not left.exists()
            assert used.exists()
        running.communicate()
    assert list(temporary.iterdir()) == []
