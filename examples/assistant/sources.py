"""What lies under the paths that the user gave, and what each file is; nothing else is opened."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from agentrt.errors import ConfigurationError
from agentrt.terminal_text import printable

from .errors import ToolError

T = TypeVar("T")

LARGEST_TEXT = 1_000_000  # bytes of a note or another text file
_MOST_FILES = 100_000
_HEAD = 64 * 1024
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MAIL_HEADERS = {"date", "from", "message-id", "received", "subject"}

_log = logging.getLogger(__name__)


Kind: TypeAlias = Literal["calendar", "mailbox", "mail", "note", "text"]
"""A ``.ics`` file, an mbox file, one mail of a Maildir, a Markdown file, another text file."""


@dataclass(frozen=True)
class Source:
    """One version of a file. ``place`` is unique, has forward slashes, and is what the user sees."""

    path: Path
    place: str
    kind: Kind | None
    modified_ns: int
    size: int


class Mirror(Protocol):
    """A folder with what lies elsewhere. As a ``str``, it is what the user calls that."""

    @property
    def folder(self) -> Path:
        """The folder."""

    def refresh(self) -> None:
        """Bring the folder up to date where it is time. Takes a few seconds at most, and raises nothing."""


class Sources:
    """The files at and below some paths.

    Hidden files and folders are left out, and symbolic links below the paths are not followed. With several
    paths, the name of the path stands before the place of a file.
    """

    def __init__(self, paths: Sequence[Path], mirrors: Sequence[Mirror] = ()) -> None:
        """Raise :class:`ConfigurationError` if nothing is recognised. ``mirrors`` are of some paths."""
        self._mirrors = {Path(os.path.realpath(mirror.folder)): mirror for mirror in mirrors}
        self._roots: dict[str, Path] = {}
        for number, path in enumerate(dict.fromkeys(Path(os.path.realpath(path)) for path in paths), 1):
            name = path.name.lstrip(".") or "data"
            self._roots[f"{number}-{name}" if name in self._roots else name] = path
        self._known: dict[str, Source] = {}
        self._seen = threading.local()
        if not self.find():
            raise ConfigurationError(
                f"nothing that can be read is in {self}. Give calendars (.ics), mail (a Maildir or an mbox "
                "file), notes (.md) or other text files of at most 1 MB, or a folder with some."
            )

    def find(self, *kinds: Kind) -> list[Source]:
        """The files of these kinds, or all, as they are now; those of a folder before its subfolders'."""
        found: dict[str, Source] | None = getattr(self._seen, "found", None)
        if found is None:
            found = self._look()
            if hasattr(self._seen, "found"):
                self._seen.found = found
        return [source for source in found.values() if source.kind in (kinds or get_args(Kind))]

    @contextlib.contextmanager
    def seen_once(self) -> Iterator[None]:
        """Look at the files once for all that this thread asks in the block."""
        self._seen.found = None
        try:
            yield
        finally:
            del self._seen.found

    def _look(self) -> dict[str, Source]:
        for mirror in self._mirrors.values():
            mirror.refresh()
        found: dict[str, Source] = {}
        for name, root in self._roots.items():
            for path, in_maildir in _walk(root):
                try:
                    status = os.lstat(path)
                except OSError:  # removed since the folder was listed
                    continue
                if path in found or not stat.S_ISREG(status.st_mode):
                    continue
                version = (status.st_mtime_ns, status.st_size)
                source = self._known.get(path)
                if source is None or (source.modified_ns, source.size) != version:
                    file = Path(path)
                    parts = file.relative_to(root).parts
                    place = "/".join(parts if parts and len(self._roots) == 1 else (name, *parts))
                    source = Source(file, clean(place), "mail" if in_maildir else _kind(file), *version)
                found[path] = source
                if len(found) > _MOST_FILES:
                    raise ConfigurationError(f"{self} holds more than {_MOST_FILES:,} files. Give fewer.")
        self._known = found
        return found

    def holds(self, folder: Path) -> bool:
        """Whether the folder is one of the paths or below one."""
        return any(folder.is_relative_to(root) and root.is_dir() for root in self._roots.values())

    def folder(self) -> Path:
        """The first folder among the paths that is no Maildir; :class:`ToolError` if there is none."""
        for root in self._roots.values():
            if root.is_dir() and not (root / "cur").is_dir():
                return root
        raise ToolError("no folder was given for what is new, only files and mail")

    def __str__(self) -> str:
        home = re.escape(os.path.expanduser("~"))
        names = (str(self._mirrors.get(path, path)) for path in self._roots.values())
        return printable(clean(enumerated(re.sub(rf"^{home}(?=[/\\]|$)", "~", name) for name in names)))


class Parsed(Generic[T]):
    """What was read from each file of some kinds, again only where the file has changed.

    Its owner lets one thread at a time use it.
    """

    def __init__(self, sources: Sources, kinds: Sequence[Kind], parse: Callable[[Source], list[T]]) -> None:
        self._sources = sources
        self._kinds = kinds
        self._parse = parse
        self.read: dict[Source, list[T] | None] = {}
        """None for a file that cannot be read."""

    def refresh(self) -> bool:
        """Read what is new or has changed; return whether anything has."""
        found = self._sources.find(*self._kinds)
        if found == list(self.read):
            return False
        self.read = {
            source: self.read[source] if source in self.read else self._try(source) for source in found
        }
        return True

    def items(self) -> list[T]:
        """What was read, in the order of the files."""
        return [item for items in self.read.values() for item in items or ()]

    def _try(self, source: Source) -> list[T] | None:
        try:
            return self._parse(source)
        except Exception as error:  # noqa: BLE001 - parsers of foreign files raise whatever they meet
            leave_out(source.place, error)
            return None


def leave_out(what: str, error: Exception) -> None:
    """Tell the user that something cannot be read."""
    why = " ".join(str(error).split()) or type(error).__name__
    _log.warning("%s", printable(f"left out {what}, which cannot be read: {why}"))


def enumerated(parts: Iterable[str]) -> str:
    """The parts as they stand in a sentence: ``a, b and c``."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def read_text(source: Source) -> str:
    """The text of a file; ValueError if it is too large or none."""
    if source.size > LARGEST_TEXT:
        raise ValueError("it is larger than 1 MB")
    content = source.path.read_bytes()
    if content.startswith(_UTF_16):
        return content.decode("utf-16", "replace").strip()
    if b"\0" in content:
        raise ValueError("it is no text")
    try:
        return content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:  # what else most texts of Europe and America are in
        return content.decode("cp1252", "replace").strip()


def write_new(folder: Path, stem: str, suffix: str, content: bytes) -> Path:
    """Write a file under a name that no other has, which begins with ``stem``; return its path."""
    for number in itertools.count(1):
        path = folder / f"{stem}{f' {number}' if number > 1 else ''}{suffix}"
        with contextlib.suppress(FileExistsError), path.open("xb") as file:
            try:
                file.write(content)
                file.flush()
            except BaseException:
                path.unlink()
                raise
            return path
    raise AssertionError


def discard(path: Path) -> None:
    """Move a file into the hidden folder ``.deleted`` beside it, over no other."""
    folder = path.parent / ".deleted"
    folder.mkdir(exist_ok=True)
    os.replace(path, write_new(folder, path.stem, path.suffix, b""))


def _walk(root: Path) -> Iterator[tuple[str, bool]]:
    """Every visible file, and whether it is in a Maildir."""
    if not root.is_dir():
        yield str(root), False
    pending = [(str(root), False)]
    while pending:
        folder, in_maildir = pending.pop()
        try:
            with os.scandir(folder) as entries:
                is_folder = {
                    entry.name: entry.is_dir(follow_symlinks=False)
                    for entry in entries
                    if not entry.name.startswith(".")
                }
        except OSError:  # removed meanwhile, or not the user's
            continue
        is_maildir = is_folder.get("cur", False) and is_folder.get("new", False)
        if is_maildir:  # besides mails it has mails in delivery, and indexes of mail programs
            is_folder = {name: True for name, is_one in is_folder.items() if is_one and name != "tmp"}
        names = sorted(is_folder)
        yield from ((os.path.join(folder, name), in_maildir) for name in names if not is_folder[name])
        for name in reversed(names):
            if is_folder[name]:
                pending.append((os.path.join(folder, name), is_maildir and name in ("cur", "new")))


def _kind(path: Path) -> Kind | None:
    suffix = path.suffix.lower()
    if suffix == ".ics":
        return "calendar"
    if suffix in (".md", ".markdown"):
        return "note"
    if suffix == ".mbox" or path.name == "mbox":
        return "mailbox"
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if head.startswith(b"From ") and _has_headers(head.partition(b"\n")[2]):
                return "mailbox"
            is_binary = b"\0" in head and not head.startswith(_UTF_16)
            rest = b"\0" if is_binary else file.read(LARGEST_TEXT)
    except OSError:
        return None
    if head.startswith(_UTF_16):
        rest = rest.replace(b"\0", b" ")
    return None if b"\0" in rest or len(head) + len(rest) > LARGEST_TEXT else "text"


def _has_headers(mail: bytes) -> bool:
    headers = BytesParser().parsebytes(mail, headersonly=True)
    return not _MAIL_HEADERS.isdisjoint(name.lower() for name in headers)


def clean(text: str) -> str:
    """The text without what UTF-8 cannot express, such as names of files in another encoding."""
    return text.encode("utf-8", "replace").decode()
