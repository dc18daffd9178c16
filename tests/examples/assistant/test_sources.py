"""Own data as people have it: what is recognised, what is reached, what is damaged."""

import contextlib
import datetime as dt
import mailbox
import os
import tempfile
from email.message import EmailMessage
from pathlib import Path
from string import ascii_letters

import icalendar
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.errors import AgentRTError, ConfigurationError
from agentrt.examples.assistant import sources as sources_module
from agentrt.examples.assistant.data import PersonalData, copy_data
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.sources import Sources

TODAY = dt.date(2026, 11, 18)


def write(file: Path, content: str | bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def mail(subject: str, day: int = 1) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["Subject"] = "Nadia <nadia@example.org>", subject
    message["Date"] = f"{day:02d} Nov 2026 09:00:00 +0000"
    message.set_content(f"About {subject}.")
    return message


def event(title: str, day: int = 19) -> bytes:
    calendar, one = icalendar.Calendar(), icalendar.Event()
    one.add("uid", title)
    one.add("summary", title)
    one.add("dtstart", dt.datetime(2026, 11, day, 12))
    calendar.add_component(one)
    return calendar.to_ical()


def box(path: Path, *messages: EmailMessage) -> None:
    with contextlib.closing(mailbox.mbox(path)) as opened:
        for message in messages:
            opened.add(message)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with something of each kind, and what is none of it."""
    home = tmp_path / "home"
    write(home / "plan.txt", "tulips\n")
    write(home / "notes" / "Tea.md", "water first\n")
    write(home / "notes" / "deep" / "Cocoa.MARKDOWN", "# Hot cocoa\n\nmilk first\n")
    write(home / "work.ics", event("meeting"))
    box(home / "archive.mbox", mail("roof", 3))
    box(home / "Inbox", mail("kayak", 2))
    maildir = mailbox.Maildir(home / "Mail")
    maildir.add(mail("jam", 1))
    write(home / "Mail" / "tmp" / "half", "half a mail")
    write(home / "Mail" / "dovecot-uidlist", "3 V1\n")
    write(home / "photo.jpg", b"\xff\xd8\0tulips")
    write(home / "large.txt", b"tulips " * 200_000)
    write(home / "from.txt", "From here to there it is a mile.\n")
    write(home / ".hidden", "tulips")
    write(home / ".git" / "config", "tulips")
    return home


def places(sources: Sources) -> dict[str, str | None]:
    return {source.place: source.kind for source in sources.find()}


def test_each_file_is_recognised_by_what_it_is(home: Path) -> None:
    found = places(Sources([home]))
    (delivered,) = (name for name in found if name.startswith("Mail/"))
    assert delivered.startswith("Mail/new/")
    assert found == {
        "plan.txt": "text",
        "from.txt": "text",
        "work.ics": "calendar",
        "archive.mbox": "mailbox",
        "Inbox": "mailbox",
        delivered: "mail",
        "notes/Tea.md": "note",
        "notes/deep/Cocoa.MARKDOWN": "note",
    }


def test_what_is_read_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setenv("USERPROFILE", str(home.parent))
    said = {
        (home,): "2 notes, 1 calendar with 1 event, 3 mails and 2 other text files in ~/home",
        (home / "notes",): "2 notes in ~/home/notes",
        (home / "plan.txt",): "1 text file in ~/home/plan.txt",
        (
            home / "Mail",
            home / "work.ics",
        ): "1 calendar with 1 event and 1 mail in ~/home/Mail and ~/home/work.ics",
        (home / "Inbox", home / "work.ics", home / "notes" / "Tea.md"): (
            "1 note, 1 calendar with 1 event and 1 mail in ~/home/Inbox, ~/home/work.ics "
            "and ~/home/notes/Tea.md"
        ),
    }
    for paths, sentence in said.items():
        with contextlib.closing(PersonalData.open(*paths)) as data:
            assert data.description() == f"Reads {sentence}."
    for number in range(1200):
        write(home / "many" / f"{number}.md", "tea")
    with contextlib.closing(PersonalData.open(home / "many")) as data:
        assert data.description() == "Reads 1,200 notes in ~/home/many."


def test_each_kind_alone_is_enough_and_nothing_is_a_configuration_error(home: Path) -> None:
    for name in ("plan.txt", "notes", "work.ics", "Inbox", "Mail"):
        with contextlib.closing(PersonalData.open(home / name, today=lambda: TODAY)) as data:
            counts = [len(part.all()) for part in (data.notes, data.mail, data.files)]
            assert sum(map(bool, [*counts, data.calendar.size()[0]])) == 1
            assert (
                data.notes.search("zeppelin") == data.mail.unread()[1:] == data.files.search("zeppelin") == []
            )
            assert len(data.calendar.events_on("tomorrow")) == (name == "work.ics")
    (home / "empty").mkdir()
    for name in ("empty", "photo.jpg", "large.txt", "nowhere"):
        with pytest.raises(ConfigurationError, match=r"Give calendars \(.ics\), mail .* notes \(.md\) or"):
            PersonalData.open(home / name)


def test_too_many_files_are_a_configuration_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "_MOST_FILES", 5)
    with pytest.raises(ConfigurationError, match=r"holds more than 5 files\. Give fewer"):
        PersonalData.open(home)


def test_several_paths_are_told_apart_and_a_file_is_read_once(home: Path) -> None:
    write(home.parent / "other" / "notes" / "Tea.md", "other tea")
    both = Sources(
        [home / "notes", home.parent / "other" / "notes", home / "notes" / "Tea.md", home / "plan.txt"]
    )
    assert list(places(both)) == ["notes/Tea.md", "notes/deep/Cocoa.MARKDOWN", "2-notes/Tea.md", "plan.txt"]
    hidden = write(home / ".config" / ".plan.txt", "given by name")
    assert list(places(Sources([hidden.parent / hidden.name, home / ".git"]))) == ["plan.txt", "git/config"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links")
def test_links_and_special_files_are_left_out(home: Path) -> None:
    write(home.parent / "secret" / "secret.txt", "the password")
    before = places(Sources([home]))
    (home / "link.txt").symlink_to(home.parent / "secret" / "secret.txt")
    (home / "away").symlink_to(home.parent / "secret", target_is_directory=True)
    (home / "loop").symlink_to(home / "loop")
    (home / "inside.txt").symlink_to(home / "plan.txt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(home / "pipe")
    assert places(Sources([home])) == before
    (home.parent / "given").symlink_to(home, target_is_directory=True)
    assert places(Sources([home.parent / "given"])) == before


def test_damaged_files_are_named_once_and_the_rest_is_read(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(home / "broken.ics", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n")
    write(
        home / "partly.ics",
        event("lunch").replace(b"BEGIN:VEVENT", b"BEGIN:VEVENT\r\nEND:VEVENT\r\nBEGIN:VEVENT"),
    )
    write(home / "zip.mbox", b"PK\3\4 a zip file")
    write(home / "bi\x1bnary.md", b"a\0b")
    write(home / "large.md", b"tulips " * 200_000)
    with contextlib.closing(PersonalData.open(home, today=lambda: TODAY)) as data:
        for _ in range(2):
            assert [event.title for event in data.calendar.events_on("tomorrow")] == ["lunch", "meeting"]
            assert len(data.mail.all()) == 3
            assert len(data.notes.all()) == 2
    said = caplog.messages
    assert [line.split(", which cannot be read: ")[0] for line in said] == [
        "left out bi␛nary.md",
        "left out large.md",
        "left out broken.ics",
        "left out an event in partly.ics",
        "left out zip.mbox",
    ]


def test_a_file_is_parsed_again_only_when_it_has_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = Path.read_bytes
    with contextlib.closing(PersonalData.open(home, today=lambda: TODAY)) as data:
        monkeypatch.setattr(Path, "read_bytes", lambda self: read.append(self.name) or original(self))
        data.notes.all(), data.calendar.events_on("today"), data.mail.all(), data.files.all()
        assert read == []
        write(home / "notes" / "Tea.md", "milk first\n")
        write(home / "home.ics", event("dinner"))
        (home / "plan.txt").unlink()
        assert [note.title for note in data.notes.search("milk")] == ["Tea", "Hot cocoa"]
        assert data.notes.search("water") == []
        assert [event.title for event in data.calendar.events_on("tomorrow")] == ["dinner", "meeting"]
        assert data.files.all() == ["from.txt"]
        assert read == ["Tea.md", "home.ics"]


def test_a_copy_has_what_is_recognised_under_the_same_names(home: Path, tmp_path: Path) -> None:
    for paths in (
        [home],
        [home / "Mail"],
        [home / "plan.txt"],
        [home / "Mail", home / "notes", home / "plan.txt"],
    ):
        target = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        copy_data(paths, target)
        assert places(Sources([target])) == places(Sources(paths))
        assert not list(target.rglob("photo.jpg")) + list(target.rglob(".*")) + list(target.rglob("half"))


NAMES = st.sampled_from(
    [
        "a.ics",
        "b.ics",
        "mbox",
        "x.mbox",
        "Inbox",
        "n.md",
        "t.txt",
        "M/cur/1:2,S",
        "M/new/2",
        "sub/n.md",
        "sub/c.ics",
        "-",
    ]
)
BEGINNINGS = st.sampled_from(
    [
        b"",
        b"From x\nSubject: y\n\n",
        b"From: a\nContent-Type: multipart/mixed; boundary=x\n\n--x\n",
        b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20261119T",
        event("x"),
        b"---\n",
        b"# ",
    ]
)
FILES = st.dictionaries(NAMES, st.tuples(BEGINNINGS, st.binary(max_size=80)), max_size=5)


@given(FILES, st.text(), st.text(min_size=1))
@example(
    {"x.mbox": (b"From x\nDate: 99 Foo 2026\nFrom: \xff\nSubject: =?x?q?\xff?=\n\n", b"")}, "../secret", ".."
)
@example({"a.ics": (event("x"), b"")}, "secret", "/etc/passwd")
@example({"a.ics": (b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20261119T", b"END:VCALENDAR")}, "", "0")
@example({"a.ics": (b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20261119T", b"\r\nEND:VCALENDAR")}, "", "0")
def test_whatever_lies_there_is_read_or_a_typed_error_and_nothing_is_overwritten(
    files: dict[str, tuple[bytes, bytes]], asked: str, text: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "home")
        home.mkdir()
        write(Path(name, "secret"), "password")
        for place, parts in files.items():
            write(home / place, b"".join(parts))
        before = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
        with contextlib.ExitStack() as stack:
            try:
                data = stack.enter_context(contextlib.closing(PersonalData.open(home, today=lambda: TODAY)))
            except AgentRTError:
                return
            assert data.description().isprintable()
            for call in (data.notes.read, data.mail.read, data.files.read, data.calendar.events_on):
                with contextlib.suppress(ToolError):
                    assert "password" not in str(call(asked))
            assert (
                data.notes.search("password")
                == data.mail.search("password")
                == data.files.search("password")
                == []
            )
            for path in data.files.all():
                assert data.files.read(path).path == path
            note = data.notes.create(text)
            assert data.notes.read(note.id) == note
            data.calendar.add("yoga", "Friday", "15:00")
            assert "yoga" in [event.title for event in data.calendar.events_on("Friday")]
        after = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
        changed = [file for file, content in before.items() if after.get(file) != content]
        assert {file.suffix for file in changed} <= {".ics"}
        assert all(len(after[file]) > len(before[file]) for file in changed)
        assert len(after) - len(before) == 2 - len(changed)
        assert {file.name for file in Path(name).iterdir()} == {"home", "secret"}


@given(
    st.lists(st.text(st.sampled_from(ascii_letters + "./\\:\0 #-") | st.characters(), min_size=1), max_size=6)
)
def test_new_notes_have_names_of_their_own_in_the_folder(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "home")
        write(home / "note.md", "first")
        with contextlib.closing(PersonalData.open(home)) as data:
            saved = [data.notes.create(text) for text in texts]
            assert [note.id for note in saved] == [f"n{number}" for number in range(2, len(texts) + 2)]
            assert {note.id: note for note in data.notes.all()}.items() >= {
                note.id: note for note in saved
            }.items()
        assert len(list(home.iterdir())) == 1 + len(texts)
        assert (home / "note.md").read_text() == "first"
        assert list(Path(name).iterdir()) == [home]
