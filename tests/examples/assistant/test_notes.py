import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.notes import Note, Notes
from agentrt.examples.assistant.sources import Sources


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    (tmp_path / "plan.txt").write_text("not a note")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "Tea.md").write_text("water first\n")
    (tmp_path / "more" / "b.md").write_text("")
    notes = Notes(Sources([tmp_path]))
    yield notes
    notes.close()


def test_a_created_note_is_read_and_found(notes: Notes, tmp_path: Path) -> None:
    note = notes.create("buy milk and eggs for the long weekend")
    assert note == Note("n3", "buy milk and eggs for the", "buy milk and eggs for the long weekend")
    assert notes.read(" n3 ") == notes.read("3") == note
    assert notes.search("egg") == [note]
    file = tmp_path / "more" / "buy milk and eggs for the.md"
    assert file.read_text() == "buy milk and eggs for the long weekend\n"
    assert notes.create("# List: 1/2\n\nmilk") == Note("n4", "List: 1/2", "milk")
    assert (tmp_path / "more" / "List 1 2.md").read_text() == "# List: 1/2\n\nmilk\n"


def test_a_deleted_note_is_kept_out_of_sight(notes: Notes, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="note n1 is Tea and not b; nothing was deleted"):
        notes.delete("n1", "b")
    assert notes.delete("n1", "Tea") == Note("n1", "Tea", "water first")
    assert [note.id for note in notes.all()] == ["n2"]
    assert (tmp_path / "more" / ".deleted" / "Tea.md").read_text() == "water first\n"
    (tmp_path / "more" / "Tea.md").write_text("milk first\n")
    notes.delete("n1")
    assert (tmp_path / "more" / ".deleted" / "Tea 2.md").read_text() == "milk first\n"
    with pytest.raises(ToolError, match="no note with id n1"):
        notes.delete("n1")


def test_a_new_note_never_takes_the_place_of_another(notes: Notes, tmp_path: Path) -> None:
    for text in ("Tea", "../../Tea", "# Tea\n\nmilk first", "?!", "..", "con/../.hidden"):
        notes.create(text)
    names = {file.name for file in (tmp_path / "more").iterdir()}
    new = ("Tea 2.md", "Tea 3.md", "Tea 4.md", "note.md", "note 2.md", "con hidden.md")
    assert names == {"Tea.md", "b.md", *new}
    assert (tmp_path / "more" / "Tea.md").read_text() == "water first\n"


def test_without_notes_the_first_folder_is_written_to_and_a_file_is_none(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "plan.txt").write_text("tulips")
    notes = Notes(Sources([tmp_path / "plan.txt", tmp_path / "b", tmp_path / "a"]))
    assert notes.create("milk").id == "n1"
    assert (tmp_path / "b" / "milk.md").exists()
    notes.close()
    for name in ("cur", "new"):
        (tmp_path / "mail" / name).mkdir(parents=True)
    (tmp_path / "mail" / "cur" / "1:2,S").write_text("Subject: roof\n\nIt leaks.\n")
    for given in (tmp_path / "plan.txt", tmp_path / "b" / "milk.md", tmp_path / "mail"):
        notes = Notes(Sources([given]))
        with pytest.raises(ToolError, match="no folder was given"):
            notes.create("bread")
        notes.close()


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("water first", "x.y", "water first"),
        ("# Tea \n\nwater first", "Tea", "water first"),
        ("\ufeff# Tea\r\nwater\r\nfirst", "Tea", "water\nfirst"),
        ("intro\n# Tea\nwater", "Tea", "intro\n# Tea\nwater"),
        ("# Tea", "Tea", "Tea"),
        ("## Tea\n#tea\n#\n# ", "x.y", "## Tea\n#tea\n#\n#"),
        ("```sh\n# install\n```", "x.y", "```sh\n# install\n```"),
        ("---\ntags: [a]\n---\n# Tea\nwater", "Tea", "water"),
        ("---\ntags: [a]\n...\n", "x.y", "x.y"),
        ("---\nno end", "x.y", "---\nno end"),
        ("a\n---\nb\n---\n", "x.y", "a\n---\nb\n---"),
    ],
)
def test_title_and_text_of_a_note(tmp_path: Path, content: str, title: str, text: str) -> None:
    (tmp_path / "x.y.md").write_bytes(content.encode())
    notes = Notes(Sources([tmp_path]))
    assert notes.all() == [Note("n1", title, text)]
    notes.close()


@pytest.mark.parametrize("note_id", ["n99", "", "n", "x1", "n-1", "n1 OR 1=1", "²", "n" + "9" * 5000])
def test_an_unknown_id_is_a_clear_error(notes: Notes, note_id: str) -> None:
    with pytest.raises(ToolError, match=r"^no note with id "):
        notes.read(note_id)


def test_a_note_keeps_its_number_while_others_come_and_go(notes: Notes, tmp_path: Path) -> None:
    (tmp_path / "A.md").write_text("honey")
    assert [(note.id, note.title) for note in notes.all()] == [("n3", "A"), ("n1", "Tea"), ("n2", "b")]
    (tmp_path / "more" / "Tea.md").unlink()
    (tmp_path / "more" / "b.md").write_text("more honey")
    assert [note.id for note in notes.search("honey")] == ["n3", "n2"]
    assert notes.search("water") == []
    assert notes.create("bread").id == "n4"


WRITER = """
import sys
from pathlib import Path
from agentrt.examples.assistant.notes import Notes
from agentrt.examples.assistant.sources import Sources
notes = Notes(Sources([Path(sys.argv[1])]))
while True:
    print(notes.create("remember the milk").id, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_killed_writer_leaves_every_saved_note(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("bread")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer:
        saved = [writer.stdout.readline().strip() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        saved += writer.stdout.read().split()
    notes = Notes(Sources([tmp_path]))
    whole = [note for note in notes.all() if note.text == "remember the milk"]
    assert len(whole) >= len(saved) >= 20
    notes.close()
