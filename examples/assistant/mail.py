"""Mail in one mbox file, the format that mail programs export."""

from __future__ import annotations

import mailbox
import sqlite3
import threading
from email.message import EmailMessage
from pathlib import Path
from typing import IO, Any

from agentrt.errors import ConfigurationError

from . import search
from .errors import ToolError
from .mail_message import Mail, mail_number, parse_message, read_message


class MailBox:
    """The mails in ``path``, read again when the file has changed; a :class:`Mailbox`."""

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
        number, mails = mail_number(mail_id), self.all()
        if number is None or not 1 <= number <= len(mails):
            raise ToolError(f"no mail with id {mail_id}")
        return mails[number - 1]

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
        self._mails = [read_message(number, message) for number, message in enumerate(messages, 1)]
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
    return parse_message(file.read())
