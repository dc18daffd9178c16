"""Mail on an IMAP server, read with the client of the standard library."""

from __future__ import annotations

import imaplib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from .errors import ToolError
from .mail_message import Mail, mail_number, parse_message, read_message

_TIMEOUT = 10.0  # seconds for one command


class ImapMail:
    """The mail in the INBOX of a server; a :class:`Mailbox`.

    Connections are opened when they are needed, used by one call at a time and kept for the next.
    """

    def __init__(self, host: str, port: int, user: str = "me", password: str = "secret") -> None:
        """The server must be trusted with the password: the connection is not encrypted."""
        self._address = (host, port)
        self._login = (user, password)
        self._lock = threading.Lock()
        self._idle: list[imaplib.IMAP4] = []
        self._closed = False

    def connect(self, connections: int) -> None:
        """Open so many connections now, so that the first calls need not."""
        opened = [self._open() for _ in range(connections)]
        with self._lock:
            self._idle += opened

    def search(self, query: str, limit: int = 3) -> list[Mail]:
        """The best matches by the server's fuzzy search, without bodies: two commands."""
        with self._connection() as connection:
            connection.literal = query.encode()  # type: ignore[assignment]  # the stubs take it for text
            found = self._uids(connection, "SORT", "(RELEVANCY)", "UTF-8", "FUZZY", "TEXT")[:limit]
            return self._fetch(connection, found, "BODY.PEEK[HEADER.FIELDS (FROM SUBJECT)]")

    def read(self, mail_id: str) -> Mail:
        """The mail with that id: one command; :class:`ToolError` if there is none."""
        number = mail_number(mail_id)
        with self._connection() as connection:
            found = [] if number is None else self._fetch(connection, [number], "BODY.PEEK[]")
        if not found:
            raise ToolError(f"no mail with id {mail_id}")
        return found[0]

    def unread(self) -> list[Mail]:
        """The mails that are not marked as read, oldest first."""
        return self._all("UNSEEN")

    def all(self) -> list[Mail]:
        """Every mail, oldest first."""
        return self._all("ALL")

    def close(self) -> None:
        """Log out."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            _leave(connection)

    def _all(self, criterion: str) -> list[Mail]:
        with self._connection() as connection:
            return self._fetch(connection, self._uids(connection, "SEARCH", criterion), "BODY.PEEK[]")

    @contextmanager
    def _connection(self) -> Iterator[imaplib.IMAP4]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self._open()
            yield connection
        except (OSError, imaplib.IMAP4.error) as error:
            if connection is not None:
                _leave(connection)
            raise ToolError(f"the mail server does not answer: {error or type(error).__name__}") from error
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        _leave(connection)

    def _open(self) -> imaplib.IMAP4:
        connection = imaplib.IMAP4(*self._address, timeout=_TIMEOUT)
        try:
            connection.login(*self._login)
            _checked(connection.select("INBOX", readonly=True))
        except BaseException:
            _leave(connection)
            raise
        return connection

    def _uids(self, connection: imaplib.IMAP4, command: str, *arguments: str) -> list[int]:
        data = _checked(connection.uid(command, *arguments))
        return [int(uid) for uid in (data[0] or b"").split()]

    def _fetch(self, connection: imaplib.IMAP4, uids: Sequence[int], items: str) -> list[Mail]:
        """Return these mails in this order, as far as they exist."""
        if not uids:
            return []
        data = _checked(connection.uid("FETCH", ",".join(map(str, uids)), items))
        found = {}
        for part in data:
            if isinstance(part, tuple):  # the answer's first line, and the literal that it announces
                number = int(part[0].split()[0])
                found[number] = read_message(number, parse_message(part[1]))
        return [found[uid] for uid in uids if uid in found]


def _checked(answer: tuple[str, list[Any]]) -> list[Any]:
    status, data = answer
    if status != "OK":
        raise imaplib.IMAP4.error(f"{status} {data}")
    return data


def _leave(connection: imaplib.IMAP4) -> None:
    try:
        connection.logout()
    except (OSError, imaplib.IMAP4.error):
        with suppress(OSError):
            connection.shutdown()
