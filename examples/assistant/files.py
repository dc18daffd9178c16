"""Text files under one folder; nothing outside it can be reached."""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path, PurePath

from .errors import ToolError
from .search import Index

_LARGEST_FILE = 1_000_000


@dataclass(frozen=True)
class TextFile:
    """One file; ``path`` is relative to the folder and has forward slashes on every system."""

    path: str
    text: str


class Folder:
    """Search and read the text files under ``root``.

    Hidden files, binary files and files above 1 MB are left out of the search. A path that leads outside
    (absolute, with ``..`` or through a symbolic link) is refused, whether or not something is there.
    """

    def __init__(self, root: Path) -> None:
        """Index what is there now; a later search does so again if anything has changed."""
        self.root = root.resolve()
        self._lock = threading.Lock()  # calls come from worker threads
        self._indexed: dict[str, tuple[int, int]] | None = None
        self._paths: list[str] = []
        self._index = Index()
        self._refresh()

    def search(self, query: str, limit: int = 3) -> list[str]:
        """Paths of the files whose name or text matches best, see :mod:`.search`."""
        with self._lock:
            self._refresh()
            return [self._paths[row] for row in self._index.search(query, limit)]

    def read(self, path: str) -> TextFile:
        """The file at ``path`` below the folder; :class:`ToolError` if there is no such text file."""
        asked = path.strip()
        # realpath rather than Path.resolve, which fails on links that form a loop.
        found = Path(os.path.realpath(self.root / asked)) if "\0" not in asked else Path()
        if not found.is_relative_to(self.root) or PurePath(asked).is_absolute():
            raise ToolError(f"the path {path} is outside the folder")
        if not os.path.isfile(found):  # unlike Path.is_file it bears names that no file can have
            raise ToolError(f"no file at {path}")
        text = _text(found)
        if text is None:
            raise ToolError(f"{path} is not a readable text file of at most 1 MB")
        return TextFile(found.relative_to(self.root).as_posix(), text)

    def versions(self) -> dict[str, tuple[int, int]]:
        """Every visible file's modification time in nanoseconds and size in bytes, by path."""
        versions: dict[str, tuple[int, int]] = {}
        for folder, folders, names in os.walk(self.root):  # does not follow links to folders
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                file = Path(folder, name)
                if name.startswith(".") or not Path(os.path.realpath(file)).is_relative_to(self.root):
                    continue
                try:
                    status = file.stat()
                except OSError:  # removed since the folder was listed, or a link that leads nowhere
                    continue
                if stat.S_ISREG(status.st_mode):
                    versions[file.relative_to(self.root).as_posix()] = (status.st_mtime_ns, status.st_size)
        return versions

    def close(self) -> None:
        self._index.close()

    def _refresh(self) -> None:
        versions = self.versions()
        if versions == self._indexed:
            return
        texts = {path: text for path in versions if (text := _text(self.root / path)) is not None}
        self._index.fill(texts.items())
        self._paths, self._indexed = list(texts), versions


def _text(file: Path) -> str | None:
    """The content of a text file, or None if it is large, binary or unreadable."""
    try:
        if file.stat().st_size > _LARGEST_FILE:
            return None
        content = file.read_bytes()
    except OSError:
        return None
    if b"\0" in content:
        return None
    return content.decode("utf-8", "replace").strip()
