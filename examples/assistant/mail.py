"""Mail in mbox files, as mail programs export it, and in Maildirs."""

from __future__ import annotations

import email
import email.policy
import html
import mailbox
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING

from .sources import Source, Sources, clean, leave_out
from .texts import Entry, Texts

if TYPE_CHECKING:
    from .meaning import MeaningIndex

_HIDDEN = re.compile(
    r"<(style|script|title)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE
)
_INSIDE_WORDS = re.compile(r"</?(?:a|b|em|font|i|span|strong|u)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
_QUOTED_FROM = re.compile(rb"^>(?=>*From )", re.MULTILINE)
"""In an mbox, before a line of a mail that would begin the next one."""
_SEEN_IN_MAILDIR = re.compile(r"[:;!]2,[A-Za-z]*S[A-Za-z]*\Z")


@dataclass(frozen=True)
class Mail:
    """One mail; ``id`` looks like ``m12``."""

    id: str
    sender: str
    subject: str
    body: str


class MailBox(Texts[Mail]):
    """The mails among the files, by their date, each once. Their numbers follow that order at first."""

    def __init__(self, sources: Sources, meaning: MeaningIndex | None = None) -> None:
        super().__init__(sources, ["mailbox", "mail"], _read, meaning)

    def read(self, mail_id: str) -> Mail:
        """The mail with that id, ``m12`` or ``12``; :class:`ToolError` if there is none."""
        return self._numbered("mail", mail_id)

    def unread(self) -> list[Mail]:
        """The mails that no mail program has marked as read, oldest first."""
        with self._lock:
            return [self._shown(number, entry) for number, entry in self._entries().items() if entry.unread]

    def by_fingerprint(self) -> dict[str, Mail]:
        """All mails with a date, oldest first, by what is theirs in later runs, too."""
        with self._lock:
            return {
                entry.fingerprint: self._shown(number, entry)
                for number, entry in self._entries().items()
                if entry.sent
            }

    def _name(self, number: int, entry: Entry) -> str:
        return f"m{number}"

    def _shown(self, number: int, entry: Entry) -> Mail:
        return Mail(self._name(number, entry), entry.sender, entry.title, entry.text)


def _read(source: Source) -> list[Entry]:
    entries = []
    for number, content in enumerate(_messages(source), 1):
        try:
            message = email.message_from_bytes(content, policy=email.policy.default)
            if not message.keys() and (not content.strip() or b"\0" in content):
                raise ValueError("it is no mail")
            if source.kind == "mailbox":
                unread = "R" not in str(message.get("Status", ""))
            else:
                unread = source.path.parent.name == "new" or not _SEEN_IN_MAILDIR.search(source.path.name)
            entries.append(_entry(message, unread))
        except Exception as error:  # noqa: BLE001 - the parser raises whatever it meets in a damaged mail
            leave_out(f"mail {number} of {source.place}", error)
    return entries


def _messages(source: Source) -> Iterator[bytes]:
    if source.kind == "mail":
        yield source.path.read_bytes()
        return
    with source.path.open("rb") as file:
        if file.read(5) not in (b"From ", b""):
            raise ValueError("no 'From ' at its start")
    box = mailbox.mbox(source.path, create=False)
    try:
        for key in box.iterkeys():
            yield _QUOTED_FROM.sub(b"", box.get_bytes(key))
    finally:
        box.close()


def _entry(message: EmailMessage, unread: bool) -> Entry:
    subject = clean(str(message.get("Subject", "no subject")))
    sender, text = clean(_sender(message)), clean(_body(message))
    date, sent = parsedate_tz(str(message.get("Date", ""))), 0.0
    with suppress(ValueError, OverflowError):
        sent = float(mktime_tz(date)) if date else 0.0
    key = (str(message.get("Message-ID", "")), subject, sender, sent, text)
    return Entry(key, subject, text, sender, sent, unread)


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
    except (LookupError, UnicodeError):  # a charset that Python does not know, or cannot use
        text = bytes(part.get_payload(decode=True)).decode("ascii", "replace")
    if part.get_content_subtype() == "html":
        text = html.unescape(_TAG.sub(" ", _INSIDE_WORDS.sub("", _HIDDEN.sub(" ", text))))
    return " ".join(text.split())
