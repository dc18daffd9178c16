"""Mail as a mail program delivers it: into the folder ``new`` of a Maildir, in one step."""

from __future__ import annotations

import itertools
from pathlib import Path

_number = itertools.count(1)


def maildir(folder: Path) -> Path:
    """Make an empty Maildir."""
    for name in ("cur", "new", "tmp"):
        (folder / name).mkdir(parents=True)
    return folder


def deliver(folder: Path, sender: str, subject: str, body: str = "Hello.", *, flags: str = "") -> None:
    """Put a mail into a Maildir, a minute younger than the last one; with ``flags`` it was seen there."""
    number = next(_number)
    name = f"{number}.host"
    (folder / "tmp" / name).write_text(
        f"From: {sender} <{sender.lower()}@example.org>\nSubject: {subject}\nMessage-ID: <{number}@host>\n"
        f"Date: Wed, 18 Nov 2026 {number // 60:02}:{number % 60:02}:00 +0000\n\n{body}\n"
    )
    place = folder / "cur" / f"{name}:2,{flags}" if flags else folder / "new" / name
    (folder / "tmp" / name).rename(place)
