"""Notes: Markdown files, one for each."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ToolError
from .sources import Source, Sources, clean, discard, read_text, write_new
from .texts import Entry, Texts

if TYPE_CHECKING:
    from .meaning import MeaningIndex

_TITLE_WORDS = 6
_LONGEST_NAME = 60
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")


@dataclass(frozen=True)
class Note:
    """One note; ``id`` looks like ``n3``."""

    id: str
    title: str
    text: str


class Notes(Texts[Note]):
    """The notes among the files. Their numbers follow their places; a new note gets the next one."""

    def __init__(self, sources: Sources, meaning: MeaningIndex | None = None) -> None:
        self._sources = sources
        super().__init__(sources, ["note"], _read, meaning)

    def create(self, text: str) -> Note:
        """Save a note as a new file in the first folder with notes; its name is the title."""
        text = clean(text.replace("\0", " ")).strip()
        title = _heading(text)[1:] or " ".join(text.split()[:_TITLE_WORDS])
        name = " ".join(re.sub(r"[^\w-]+", " ", title)[:_LONGEST_NAME].strip("- ").split()) or "note"
        with self._lock:
            self._entries()
            places = [source.path.parent for source in self._parsed.read]
            folder = next(filter(self._sources.holds, places), None) or self._sources.folder()
            number = self._number(write_new(folder, name, ".md", f"{text}\n".encode()))
            return self._shown(number, self._entries()[number])

    def read(self, note_id: str) -> Note:
        """The note with that id, ``n3`` or ``3``; :class:`ToolError` if there is none."""
        return self._numbered("note", note_id)

    def delete(self, note_id: str, title: str = "") -> Note:
        """Move the file of the note out of sight, see :func:`discard`, and return the note.

        :class:`ToolError` if its title is not ``title``, where one is given.
        """
        note = self.read(note_id)
        if title and title != note.title:
            raise ToolError(f"note {note.id} is {note.title} and not {title}; nothing was deleted")
        with self._lock:
            path = self._entries()[int(note.id[1:])].key
            assert isinstance(path, Path)
            discard(path)
        return note

    def _name(self, number: int, entry: Entry) -> str:
        return f"n{number}"

    def _shown(self, number: int, entry: Entry) -> Note:
        return Note(self._name(number, entry), entry.title, entry.text)


def _read(source: Source) -> list[Entry]:
    name = source.place.rpartition("/")[2].rpartition(".")[0]
    return [_entry(source.path, name, read_text(source))]


def _entry(key: Hashable, name: str, text: str) -> Entry:
    """The note ``text`` without front matter and, where it begins with its title, without that."""
    text = _FRONT_MATTER.sub("", text.replace("\r\n", "\n")).strip()
    heading = _heading(text)
    title = heading[1:].strip() or name
    return Entry(key, title, text.removeprefix(heading).strip() or title)


def _heading(text: str) -> str:
    """The first line that is a heading, or nothing."""
    lines = text.partition("```")[0].splitlines()  # what stands in blocks of code is none
    return next((line for line in lines if re.match(r"#\s+\S", line)), "")
