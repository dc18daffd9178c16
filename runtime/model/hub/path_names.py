"""Names that others choose and that become parts of paths: of files, digests, commits and revisions."""

from __future__ import annotations

import re
from typing import Final

_MAX_BYTES: Final = 200
"""File systems take 255; locks and partial files have a suffix."""
_FORBIDDEN: Final = frozenset('\\/:*?"<>|')
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def path_problem(name: str, *, folders: bool = False) -> str | None:
    """Return why ``name`` cannot name a file inside a folder on any system; None if it can.

    With ``folders`` it is a relative path with slashes, each part of which is such a name.
    """
    parts = name.split("/") if folders else [name]
    return next((problem for part in parts if (problem := _part_problem(part)) is not None), None)


def _part_problem(part: str) -> str | None:
    if not part:
        return "a part of it is empty"
    if part in (".", ".."):
        return f"{part!r} is a folder"
    if not part.isprintable() or not _FORBIDDEN.isdisjoint(part):
        return "it has a character that file names cannot have"
    if part[-1] in ". " or _DEVICE.fullmatch(part):
        return "it is no file on Windows"
    return "it is too long" if len(part.encode()) > _MAX_BYTES else None
