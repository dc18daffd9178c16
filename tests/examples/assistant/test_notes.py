import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.notes import Note, Notes


def test_a_created_note_is_read_and_found(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes.db")
    note = notes.create("buy milk and eggs for the long weekend")
    assert note == Note("n1", "buy milk and eggs for the", "buy milk and eggs for the long weekend")
    assert Notes(tmp_path / "notes.db").read("n1") == note
    assert notes.search("egg") == [note]


@pytest.mark.parametrize("note_id", ["n99", "", "n", "x1", "n-1", "n1 OR 1=1", "²", "n" + "9" * 30])
def test_an_unknown_id_is_a_clear_error(tmp_path: Path, note_id: str) -> None:
    notes = Notes(tmp_path / "notes.db")
    notes.create("milk")
    with pytest.raises(ToolError, match=r"^no note with id "):
        notes.read(note_id)


def test_changes_by_other_programs_are_found(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes.db")
    notes.create("milk")
    notes.create("bread")
    with closing(sqlite3.connect(tmp_path / "notes.db")) as connection, connection:
        connection.execute("UPDATE notes SET text = 'honey', title = 'honey' WHERE id = 1")
        connection.execute("DELETE FROM notes WHERE id = 2")
    assert [note.id for note in notes.search("honey")] == ["n1"]
    assert notes.search("milk") == []
    assert notes.search("bread") == []


def test_notes_of_an_existing_database_are_found(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "notes.db")) as connection, connection:
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT, text TEXT)")
        connection.execute("INSERT INTO notes(title, text) VALUES ('Tea', 'water first')")
        connection.execute("INSERT INTO notes(title, text) VALUES (NULL, 'coffee'), ('Cocoa', NULL)")
    notes = Notes(tmp_path / "notes.db")
    assert [note.title for note in notes.search("tea")] == ["Tea"]
    assert notes.search("coffee") == [Note("n2", "untitled", "coffee")]
    assert notes.search("cocoa") == [Note("n3", "Cocoa", "")]


def test_another_kind_of_file_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_bytes(b"not a database, but long enough to be looked at" * 10)
    (tmp_path / "cut.db").write_bytes(b"SQLite format 3\0 cut" * 10)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT)")
    for name in ("text.db", "cut.db", "other.db"):
        with pytest.raises(ConfigurationError, match="is not a notes database"):
            Notes(tmp_path / name)


WRITER = """
import sys
from pathlib import Path
from agentrt.examples.assistant.notes import Notes
notes = Notes(Path(sys.argv[1]))
while True:
    print(notes.create("remember the milk").id, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_killed_writer_leaves_every_saved_note(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer:
        saved = [writer.stdout.readline().strip() for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        saved += writer.stdout.read().split()
    notes = Notes(path)
    assert saved
    assert {note.id for note in notes.all()} >= set(saved)
    assert notes.search("milk")
    assert notes.create("and the eggs").id not in saved
