"""Mail in one mbox file, the format that mail programs export."""

from __future__ import annotations

import email
import email.policy
import html
import mailbox
import re
import threading
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import IO, Any

from agentrt.errors import ConfigurationError

from .errors import ToolError
from .search import Index

_HIDDEN = re.compile(r"<(style|script|head)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_INSIDE_WORDS = re.compile(r"</?(?:a|b|em|font|i|span|strong|u)\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^>]*>", re.IGNORECASE)


@dataclass(frozen=True)
class Mail:
    """One mail; ``id`` is its place in the mailbox, counted from one: ``m12``."""

    id: str
    sender: str
    subject: str
    body: str


class MailBox:
    """The mails in ``path``, read again when the file has changed. May be used on any thread."""

    def __init__(self, path: Path) -> None:
        """Read and index the mails; :class:`ConfigurationError` if the file is not an mbox."""
        self.path = path
        self._lock = threading.Lock()
        self._version: tuple[int, int] | None = None
        self._mails: list[Mail] = []
        self._unread: list[Mail] = []
        self._index = Index()
        try:
            self._refresh()
        except BaseException:
            self.close()
            raise

    def search(self, query: str, limit: int = 3) -> list[Mail]:
        """The mails that match best in sender, subject or body, see :mod:`.search`."""
        with self._lock:
            self._refresh()
            return [self._mails[row] for row in self._index.search(query, limit)]

    def read(self, mail_id: str) -> Mail:
        """The mail with that id, ``m12`` or ``12``; :class:`ToolError` if there is none."""
        known = {mail.id: mail for mail in self.all()}
        found = known.get("m" + mail_id.strip().removeprefix("m"))
        if found is None:
            raise ToolError(f"no mail with id {mail_id}")
        return found

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
        self._mails = [_read(number, message) for number, message in enumerate(messages, 1)]
        self._unread = [
            mail
            for mail, message in zip(self._mails, messages, strict=True)
            if "R" not in str(message.get("Status", ""))
        ]
        self._index.fill((f"{mail.subject} {mail.sender}", mail.body) for mail in self._mails)
        self._version = version


def _parse(file: IO[bytes]) -> EmailMessage:
    return email.message_from_bytes(file.read(), policy=email.policy.default)


def _read(number: int, message: EmailMessage) -> Mail:
    subject = str(message.get("Subject", "no subject"))
    return Mail(f"m{number}", _sender(message), subject, _body(message))


def _sender(message: EmailMessage) -> str:
    addresses = getattr(message.get("From"), "addresses", ())
    if not addresses:
        return str(message.get("From", "unknown"))
    return str(addresses[0].display_name or addresses[0].addr_spec)


def _body(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    try:
        text = str(part.get_content())
    except LookupError:  # a charset that Python does not know
        text = bytes(part.get_payload(decode=True)).decode("ascii", "replace")
    if part.get_content_subtype() == "html":
        text = html.unescape(_TAG.sub(" ", _INSIDE_WORDS.sub("", _HIDDEN.sub(" ", text))))
    return " ".join(text.split())
