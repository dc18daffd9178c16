"""An IMAP server on this machine for one mbox file, read-only.

It speaks what a mail assistant needs of IMAP4rev1 (RFC 3501), and of SORT with fuzzy search (RFC 5256,
RFC 6203): any IMAP client can log in and read, with any name and password. Message numbers and UIDs are the
places in the file, counted from one.
"""

from __future__ import annotations

import mailbox
import re
import socketserver
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

from agentrt.errors import ConfigurationError

from .mail import MailBox

CAPABILITIES = "IMAP4rev1 SORT SEARCH=FUZZY"
_MOST_FOUND = 50
_LONGEST_LINE = 8192
_LONGEST_LITERAL = 1000
_LITERAL = re.compile(rb"\{(\d{1,4})\}\r?\n$")
_WORD = re.compile(
    r'"((?:[^"\\]|\\.)*)"'  # a quoted string
    r"|(\((?:[^()]|\([^()]*\))*\)"  # a list, which may have a list in it
    r'|[^\s"()]+\[[^\]]*\]'  # BODY[...]
    r'|[^\s"]+)'
)
_RANGE = re.compile(r"(\d{1,9}|\*)(:(\d{1,9}|\*))?", re.ASCII)
_HEADERS = re.compile(r"BODY(?:\.PEEK)?\[HEADER\.FIELDS \(([^)]*)\)\]", re.IGNORECASE)
_WHOLE = re.compile(r"BODY(?:\.PEEK)?\[\]", re.IGNORECASE)


class ImapServer:
    """The server, in a ``with`` block; ``port`` is its port on 127.0.0.1 while it runs.

    ``delay`` is the time in seconds before each command is answered, as with a server far away. Leaving the
    block interrupts commands that still wait, and ends each connection at its next command.
    """

    def __init__(self, mails: MailBox, delay: float) -> None:
        """Serve ``mails``; raises :class:`ConfigurationError` unless the delay is 0 to 60 seconds."""
        if not 0 <= delay <= 60:
            raise ConfigurationError(f"the mail delay is {delay} s; choose between 0 and 60 seconds.")
        self._mails = mails
        self._delay = delay
        self.port = 0

    def __enter__(self) -> Self:
        """Start serving."""
        self._store = _Store(self._mails)
        self._server = _Server(self._store, self._delay)
        self.port = int(self._server.server_address[1])
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="mail server", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        self._server.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._store.close()


class _Store:
    """The messages as bytes; thread-safe."""

    def __init__(self, mails: MailBox) -> None:
        self.mails = mails
        self._lock = Lock()
        self._file: mailbox.Mailbox[Any] = mailbox.mbox(mails.path, create=False)
        self._keys = self._file.keys()
        self.count = len(self._keys)

    def message(self, number: int) -> bytes:
        with self._lock:
            return (
                self._file.get_bytes(self._keys[number - 1]).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            )

    def headers(self, number: int, names: list[str]) -> bytes:
        """Return the header lines of these fields, with the empty line that ends them."""
        head = self.message(number).partition(b"\r\n\r\n")[0]
        fields = re.split(rb"\r\n(?![ \t])", head)  # a line that begins with white space goes on
        wanted = {name.lower().encode() for name in names}
        kept = [field for field in fields if field.partition(b":")[0].strip().lower() in wanted]
        return b"\r\n".join([*kept, b"", b""])

    def close(self) -> None:
        with self._lock:
            self._file.close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, store: _Store, delay: float) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.store = store
        self.delay = delay
        self.stopping = Event()


class _Refused(Exception):
    """A command that cannot be carried out; ``kind`` is NO or BAD."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class _Session(socketserver.StreamRequestHandler):
    """One connection: not logged in, logged in, or with the mailbox selected."""

    server: _Server
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet for each answer

    def setup(self) -> None:
        super().setup()
        self.logged_in = self.selected = self.ended = False

    def handle(self) -> None:
        """Answer commands until the client leaves."""
        with suppress(OSError, ValueError):  # the client may leave at any time
            self._send(f"* OK [CAPABILITY {CAPABILITIES}] ready")
            while not self.ended:
                line = self._line()
                if line is None or self.server.stopping.wait(self.server.delay):
                    return
                self._answer(*line)

    def _line(self) -> tuple[str, list[str]] | None:
        """Return the tag and the words of a command, literals among them; None at the end of the stream."""
        line = self.rfile.readline(_LONGEST_LINE)
        words: list[str] = []
        while match := _LITERAL.search(line):
            length = int(match[1])
            words += _words(line[: match.start()])
            if length > _LONGEST_LITERAL:
                return None
            self._send("+ go on")
            words.append(self.rfile.read(length).decode("utf-8", "replace"))
            line = self.rfile.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            return None
        words += _words(line)
        return (words[0], words[1:]) if words else ("*", [])

    def _answer(self, tag: str, words: list[str]) -> None:
        name = words[0].upper() if words else ""
        try:
            if name == "UID" and len(words) > 1:
                name, words = f"UID {words[1].upper()}", words[1:]
            self._command(name)(words[1:])
        except _Refused as refused:
            self._send(f"{tag} {refused.kind} {refused}")
        else:
            self._send(f"{tag} OK {name} completed")

    def _command(self, name: str) -> Callable[[list[str]], None]:
        anywhere: dict[str, Callable[[list[str]], None]] = {
            "CAPABILITY": lambda words: self._send(f"* CAPABILITY {CAPABILITIES}"),
            "NOOP": lambda words: None,
            "LOGIN": self._log_in,
            "LOGOUT": self._log_out,
        }
        logged_in = {"SELECT": self._select, "EXAMINE": self._select}
        selected = {"UID SEARCH": self._search, "UID SORT": self._sort, "UID FETCH": self._fetch}
        found = (anywhere | logged_in | selected).get(name)
        if found is None:
            raise _Refused("BAD", f"unknown command {name}")
        if (name in selected and not self.selected) or (name in logged_in and not self.logged_in):
            raise _Refused("BAD", f"{name} is not allowed yet: log in and select INBOX first")
        return found

    def _log_in(self, words: list[str]) -> None:
        if len(words) != 2:
            raise _Refused("BAD", "LOGIN takes a name and a password")
        self.logged_in = True

    def _log_out(self, words: list[str]) -> None:
        self._send("* BYE")
        self.ended = True

    def _select(self, words: list[str]) -> None:
        if [word.upper() for word in words] != ["INBOX"]:
            raise _Refused("NO", "there is only INBOX")
        self.selected = True
        self._send(f"* {self.server.store.count} EXISTS")
        self._send("* 0 RECENT")
        self._send("* FLAGS (\\Seen)")
        self._send("* OK [UIDVALIDITY 1] places in the file")

    def _search(self, words: list[str]) -> None:
        match [word.upper() for word in words]:
            case ["ALL"]:
                found = list(range(1, self.server.store.count + 1))
            case ["UNSEEN"]:
                found = [int(mail.id[1:]) for mail in self.server.store.mails.unread()]
            case _:
                raise _Refused("NO", "UID SEARCH takes ALL or UNSEEN here; use UID SORT for texts")
        self._send(" ".join(["* SEARCH", *map(str, found)]))

    def _sort(self, words: list[str]) -> None:
        """``UID SORT (RELEVANCY) UTF-8 FUZZY TEXT words``: the best matches first."""
        if [word.upper() for word in words[:-1]] != ["(RELEVANCY)", "UTF-8", "FUZZY", "TEXT"]:
            raise _Refused("NO", "UID SORT takes (RELEVANCY) UTF-8 FUZZY TEXT and the text here")
        found = self.server.store.mails.search(words[-1], _MOST_FOUND)
        self._send(" ".join(["* SORT", *(mail.id[1:] for mail in found)]))

    def _fetch(self, words: list[str]) -> None:
        if len(words) < 2:
            raise _Refused("BAD", "UID FETCH takes message numbers and what of them")
        items = " ".join(words[1:])
        for number in self._numbers(words[0]):
            if headers := _HEADERS.search(items):
                content = self.server.store.headers(number, headers[1].split())
                name = f"BODY[HEADER.FIELDS ({headers[1]})]"
            elif _WHOLE.search(items):
                content, name = self.server.store.message(number), "BODY[]"
            else:
                raise _Refused("NO", "UID FETCH takes BODY.PEEK[] or BODY.PEEK[HEADER.FIELDS (...)] here")
            self.wfile.write(f"* {number} FETCH (UID {number} {name} {{{len(content)}}}\r\n".encode())
            self.wfile.write(content)
            self._send(")")

    def _numbers(self, text: str) -> Iterator[int]:
        """Yield the messages of a set such as ``2,5:7`` that exist, in its order."""
        last = self.server.store.count
        for part in text.split(","):
            if not _RANGE.fullmatch(part):
                raise _Refused("BAD", f"{text} is no set of message numbers")
            ends = [last if end == "*" else int(end) for end in part.split(":")]
            first, final = min(ends), max(ends)
            yield from range(max(1, first), min(final, last) + 1)

    def _send(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())
        self.wfile.flush()


def _words(line: bytes) -> list[str]:
    """Return the words of a line: quoted strings without quotes, lists in parentheses and sections whole."""
    text = line.decode("utf-8", "replace")
    return [
        re.sub(r"\\(.)", r"\1", match[1]) if match[1] is not None else match[2]
        for match in _WORD.finditer(text)
    ]
