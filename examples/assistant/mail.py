"""Mail in one mbox file, the format that mail programs export."""

from __future__ import annotations

import email
import email.policy
import html.parser
import mailbox
import sqlite3
import threading
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import IO, Any

from agentrt.errors import ConfigurationError

from . import search
from .errors import ToolError


@dataclass(frozen=True)
class Mail:
    """One mail; ``id`` is its place in the mbox, counted from one: ``m12``."""

    id: str
    sender: str
    subject: str
    body: str


class MailBox:
    """The mails in ``path``, read again when the file has changed."""

    def __init__(self, path: Path) -> None:
        """Read and index the mails; :class:`ConfigurationError` if the file is not an mbox."""
        self.path = path
        self._lock = threading.Lock()  # calls come from worker threads
        self._version: tuple[int, int] | None = None
        self._mails: list[Mail] = []
        self._unread: list[Mail] = []
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._refresh()
        except BaseException:
            self.close()
            raise

    def search(self, query: str, limit: int = 3) -> list[Mail]:
        """The mails that match best in sender, subject or body, see :mod:`.search`."""
        with self._lock:
            self._refresh()
            return [self._mails[row - 1] for row in search.rank(self._index, "mail", query, limit)]

    def read(self, mail_id: str) -> Mail:
        """The mail with that id; :class:`ToolError` if there is none."""
        asked = mail_id.strip()
        for mail in self.all():
            if mail.id in (asked, f"m{asked}"):
                return mail
        raise ToolError(f"no mail with id {mail_id}")

    def all(self) -> list[Mail]:
        """Every mail, oldest first."""
        with self._lock:
            self._refresh()
            return list(self._mails)

    def unread(self) -> list[Mail]:
        """The mails that no mail program has marked as read, oldest first."""
        with self._lock:
            self._refresh()
            return list(self._unread)

    def close(self) -> None:
        """Free the index."""
        self._index.close()

    def _refresh(self) -> None:
        status = self.path.stat()
        version = (status.st_mtime_ns, status.st_size)
        if version == self._version:
            return
        with self.path.open("rb") as file:
            if file.read(5) not in (b"From ", b""):
                raise ConfigurationError(
                    f"{self.path} is not an mbox file: no 'From ' at its start. Put exported mail there."
                )
        box = mailbox.mbox(self.path, factory=_parse, create=False)  # type: ignore[arg-type]
        try:
            messages: list[Any] = [box[key] for key in box.iterkeys()]
        finally:
            box.close()
        self._mails = [
            Mail(f"m{number}", _sender(message), str(message.get("Subject", "no subject")), _body(message))
            for number, message in enumerate(messages, 1)
        ]
        self._unread = [
            mail
            for mail, message in zip(self._mails, messages, strict=True)
            if "R" not in str(message.get("Status", ""))
        ]
        with self._index:
            self._index.execute("DROP TABLE IF EXISTS mail_vocabulary")
            self._index.execute("DROP TABLE IF EXISTS mail")
            search.create_index(self._index, "mail")
            self._index.executemany(
                "INSERT INTO mail(rowid, title, text) VALUES (?, ?, ?)",
                [
                    (row, f"{mail.subject} {mail.sender}", mail.body)
                    for row, mail in enumerate(self._mails, 1)
                ],
            )
        self._version = version


def _parse(file: IO[bytes]) -> EmailMessage:
    return email.message_from_binary_file(file, policy=email.policy.default)


def _sender(message: EmailMessage) -> str:
    addresses = getattr(message.get("From"), "addresses", ())
    return (
        (addresses[0].display_name or addresses[0].addr_spec)
        if addresses
        else str(message.get("From", "unknown"))
    )


def _body(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    try:
        text = str(part.get_content())
    except LookupError:  # a charset that Python does not know
        text = bytes(part.get_payload(decode=True)).decode("ascii", "replace")
    if part.get_content_subtype() == "html":
        collector = _TextCollector()
        collector.feed(text)
        text = "".join(collector.pieces)
    return " ".join(text.split())


class _TextCollector(html.parser.HTMLParser):
    """The text of an HTML mail without tags, styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script", "head")
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script", "head") and self._hidden > 0
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)

    def _separate(self, tag: str) -> None:
        if tag not in ("a", "b", "em", "font", "i", "span", "strong", "u"):  # these stand inside words
            self.pieces.append(" ")
