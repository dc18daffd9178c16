"""Text files, by their places under the paths that the user gave."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import ToolError
from .sources import Source, Sources, read_text
from .texts import Entry, Texts

if TYPE_CHECKING:
    from .meaning import MeaningIndex


@dataclass(frozen=True)
class TextFile:
    """One file."""

    path: str
    text: str


class Folder(Texts[str]):
    """Search and read text files that are no notes; what is shown of one is its path.

    A path that the model gives is looked up among those that were found, and never opened.
    """

    def __init__(self, sources: Sources, meaning: MeaningIndex | None = None) -> None:
        super().__init__(sources, ["text"], _read, meaning)

    def read(self, path: str) -> TextFile:
        """The file at ``path``, or the only one of that name; :class:`ToolError` if there is none."""
        asked = posixpath.normpath(path.strip())
        if asked.startswith(("/", "../")) or asked == "..":
            raise ToolError(f"the path {path} is outside the folder")
        with self._lock:
            entries = list(self._entries().values())
        found = [entry for entry in entries if entry.title == asked]
        found = found or [entry for entry in entries if posixpath.basename(entry.title) == asked]
        if len(found) != 1:
            raise ToolError(f"{len(found) or 'no'} file{'s are' if found else ''} at {path}")
        return TextFile(found[0].title, found[0].text)

    def _name(self, number: int, entry: Entry) -> str:
        return entry.title

    def _shown(self, number: int, entry: Entry) -> str:
        return entry.title


def _read(source: Source) -> list[Entry]:
    return [Entry(source.path, source.place, read_text(source))]
