"""One mail, as the assistant reads it from the bytes of a message."""

from __future__ import annotations

import email
import email.policy
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Protocol

from .page_text import page_text


@dataclass(frozen=True)
class Mail:
    """One mail; ``id`` is its place in the mailbox, counted from one: ``m12``."""

    id: str
    sender: str
    subject: str
    body: str


class Mailbox(Protocol):
    """Mail that can be searched and read. Its methods block, and may be called from any thread."""

    def search(self, query: str, limit: int = 3) -> list[Mail]:
        """Return the mails that match best, best first; they may come without their bodies."""
        ...

    def read(self, mail_id: str) -> Mail:
        """Return the mail with that id; :class:`ToolError` if there is none."""
        ...

    def unread(self) -> list[Mail]:
        """Return the mails that are not marked as read, oldest first."""
        ...

    def all(self) -> list[Mail]:
        """Return every mail, oldest first."""
        ...

    def close(self) -> None:
        """Free what the mailbox holds."""
        ...


def parse_message(content: bytes) -> EmailMessage:
    """Return the message in ``content``; what is malformed in it is kept as it is."""
    return email.message_from_bytes(content, policy=email.policy.default)


def read_message(number: int, message: EmailMessage) -> Mail:
    """Return the mail at place ``number`` of its mailbox."""
    subject = str(message.get("Subject", "no subject"))
    return Mail(f"m{number}", _sender(message), subject, _body(message))


def mail_number(mail_id: str) -> int | None:
    """Return the place of the mail with this id, as a model may write it (``m12`` or ``12``), or None."""
    digits = mail_id.strip().removeprefix("m")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else None


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
    return page_text(text) if part.get_content_subtype() == "html" else " ".join(text.split())
