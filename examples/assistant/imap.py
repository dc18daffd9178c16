"""Mail on an IMAP server, mirrored into a Maildir that is read as any other. It is not changed there."""

from __future__ import annotations

import base64
import datetime as dt
import getpass
import hashlib
import imaplib
import ipaddress
import itertools
import logging
import os
import re
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

import platformdirs

from agentrt.errors import ConfigurationError
from agentrt.terminal_text import printable

MOST_MAILS: Final = 500
"""The newest of a folder, which are mirrored."""
LARGEST_PART: Final = 256 * 1024
"""Bytes that are fetched of a mail, from its beginning: its text stands before what is attached."""
LOOK_EVERY_S: Final = 60.0
_TOGETHER: Final = 20
_TIMEOUT_S: Final = 10.0
_PATIENCE_S: Final = 2.0
_PORTS: Final = {"imap": 143, "imaps": 993}
_VARIABLE: Final = "AGENTRT_IMAP_PASSWORD"
_MARK: Final = "!2,"  # where others write a colon, which the names of files cannot have on Windows
_UID: Final = re.compile(rb"\bUID ([0-9]{1,10})\b")
_FLAGS: Final = re.compile(rb"\bFLAGS \(([^()]*)\)")
_HAS_PASSWORD: Final = (
    "an address of mail has a password in it, which shells keep. Leave it out: it is asked for, or is taken "
    f"from {_VARIABLE}. A colon in a user name is written %3A."
)
_UNREADABLE: Final = (
    "an address of mail cannot be read. Give imaps://USER@HOST/FOLDER, with %20 for a space, %3F for a "
    "question mark and so on."
)
# Of the network, of the disk, and of answers that are none of IMAP.
_FAILURES: Final = (OSError, imaplib.IMAP4.error, ValueError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """A folder of an account on an IMAP server; as a ``str``, it is readable, without percent signs."""

    scheme: str
    user: str
    host: str
    port: int
    folder: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the address that ``text`` is, ``imaps://USER@HOST/FOLDER``; None if it is a path.

        Raises:
            ConfigurationError: it has a password, lacks a part, or names another machine without encryption.
        """
        if not re.match("imaps?://", text, re.IGNORECASE):
            return None
        # No error repeats what was given, as a password may be in any part of it.
        try:
            parts = urlsplit(text)
            name = parts.netloc.rpartition("@")[0]
            user, folder = (unquote(part, errors="strict") for part in (name, parts.path.strip("/")))
            host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        except ValueError:
            raise ConfigurationError(_UNREADABLE) from None
        if ":" in name:
            raise ConfigurationError(_HAS_PASSWORD)
        readable = f"{user}{host}{folder}".isprintable() and not parts.query and not parts.fragment
        if not (user and host and readable):
            raise ConfigurationError(_UNREADABLE)
        if parts.scheme == "imap" and not _is_here(host):
            raise ConfigurationError(
                f"imap:// sends the password to {host} unencrypted. Give imaps://; imap:// is for localhost."
            )
        return cls(parts.scheme, user, host, port, folder or "INBOX")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.user}@{host}{port}/{self.folder}"


class ImapMail:
    """The newest mails of a folder on a server, in a Maildir that only the user can read.

    May be used on any thread. As a ``str``, it is its address.
    """

    def __init__(
        self,
        address: Address,
        password: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Fetch them. Without the server they are those of the last time, which a warning says.

        ``clock`` returns seconds. ``patience_s`` is how long :meth:`refresh` waits.

        Raises:
            ConfigurationError: the server refuses the password or the folder, or cannot be reached and there
                was no last time.
        """
        self._address = address
        self._password = password
        self._clock = clock
        self._patience_s = patience_s
        self._fetching = threading.Lock()
        self._failed = False
        self._not_sent: set[str] = set()
        host = re.sub(r"[^\w.-]", "-", address.host)
        digest = hashlib.sha256(repr(address).encode()).hexdigest()[:16]
        # Hidden, so that it is left out of a folder around it that is given, such as the home folder.
        self.folder: Final = platformdirs.user_cache_path("agentrt") / ".mail" / f"{host}-{digest}"
        self._complete = self.folder / "complete"
        self._as_of = 0.0
        with suppress(OSError):
            self._as_of = self._complete.stat().st_mtime
        try:
            self._fetch()
        except ConfigurationError:
            raise
        except _FAILURES as error:
            if not self._as_of:
                raise ConfigurationError(
                    f"{self} cannot be read: {self._words_of(error)}. Check the address and the network."
                ) from None
            self._warn(error)
        self._due = clock() + LOOK_EVERY_S

    def __str__(self) -> str:
        return str(self._address)

    def refresh(self) -> None:
        """Fetch what is new if the last time is a minute ago, in the background; wait for it a little."""
        if not self._fetching.acquire(blocking=False):
            return
        if self._clock() < self._due:
            self._fetching.release()
            return
        thread = threading.Thread(target=self._fetch_again, name="agentrt-imap", daemon=True)
        thread.start()
        thread.join(self._patience_s)

    def _fetch_again(self) -> None:
        try:
            self._fetch()
        except _FAILURES as error:
            if not self._failed:  # said once, until it works again
                self._warn(error)
        finally:
            self._due = self._clock() + LOOK_EVERY_S
            self._fetching.release()

    def _fetch(self) -> None:
        """Make the mirror what the folder is now. Each of its mails is whole at any time."""
        for folder in (self.folder.parent, self.folder, *map(self.folder.joinpath, ("cur", "new", "tmp"))):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._logged_in() as server:
            names = self._look(server)
            here, gone = set(self._not_sent), []
            for path in list((self.folder / "cur").iterdir()):
                stem = path.name.partition(_MARK)[0]
                if stem not in names:
                    gone.append(path)
                    continue
                here.add(stem)
                if path.name != names[stem]:
                    with suppress(FileNotFoundError):  # another process was faster
                        path.replace(path.with_name(names[stem]))
            new = [stem for stem in reversed(names) if stem not in here]
            for begin in range(0, len(new), _TOGETHER):
                wanted = {int(stem.partition(".")[2]): stem for stem in new[begin : begin + _TOGETHER]}
                contents = _contents(server, list(wanted))
                for uid, content in contents.items():
                    self._write(names[wanted[uid]], content)
                self._leave_out([stem for uid, stem in wanted.items() if uid not in contents])
        for path in gone:
            path.unlink(missing_ok=True)
        self._complete.touch()
        self._as_of, self._failed = self._complete.stat().st_mtime, False

    @contextmanager
    def _logged_in(self) -> Iterator[imaplib.IMAP4]:
        where = self._address.host, self._address.port
        server: imaplib.IMAP4
        if self._address.scheme == "imaps":
            context = ssl.create_default_context()  # imaplib's own trusts every certificate
            server = _BoundedTls(*where, ssl_context=context, timeout=_TIMEOUT_S)
        else:
            server = _Bounded(*where, timeout=_TIMEOUT_S)
        try:
            self._log_in(server)
            yield server
            with suppress(OSError, imaplib.IMAP4.error):  # all that was asked for is here
                server.logout()
        finally:
            with suppress(OSError):
                server.shutdown()

    def _log_in(self, server: imaplib.IMAP4) -> None:
        user, password = self._address.user, self._password
        try:
            if f"{user}{password}".isascii() and f"{user}{password}".isprintable():
                server.login(_quoted(user), password)
            else:  # what LOGIN has no letters for
                server.authenticate("PLAIN", lambda _: self._credentials())
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as error:
            raise ConfigurationError(
                f"{self._address.host} does not let {user} in: {self._words_of(error)}. Correct the name or "
                f"the password ({_VARIABLE}). Gmail, iCloud, Yahoo and Fastmail take an app password, made "
                "in the account's settings; Outlook takes no passwords, and cannot be read."
            ) from None

    def _look(self, server: imaplib.IMAP4) -> dict[str, str]:
        """Return the names of the newest mails' files, oldest first, without and with their flags."""
        status, answer = server.select(_quoted(_modified_utf7(self._address.folder)), readonly=True)
        if status != "OK":
            raise ConfigurationError(
                f"{self} cannot be opened: {self._words_of(server.error(*answer))}. Give the folder's whole "
                "name, as the server has it."
            )
        count, validity = _number(answer), _number(server.response("UIDVALIDITY")[1])
        first = max(1, count - MOST_MAILS + 1)
        marks = {}
        for text, _ in _fetched(server.fetch(f"{first}:*", "(UID FLAGS)")) if count else ():
            if (uid := _UID.search(text)) and (flags := _FLAGS.search(text)):
                marks[int(uid[1])] = _MARK + "S" * (rb"\seen" in flags[1].lower().split())
        if len(marks) <= count - first:
            raise server.abort("it does not say which mails the folder has")
        newest = sorted(marks.items())[-MOST_MAILS:]  # by their UIDs, in whose order they came
        return {f"{validity}.{uid:010}": f"{validity}.{uid:010}{mark}" for uid, mark in newest}

    def _write(self, name: str, content: bytes) -> None:
        new = self.folder / "tmp" / f"{os.getpid()}.{name}"
        try:
            new.write_bytes(content)
            new.replace(self.folder / "cur" / name)
        finally:
            new.unlink(missing_ok=True)

    def _leave_out(self, stems: Sequence[str]) -> None:
        self._not_sent.update(stems)
        if stems:
            _log.warning("left out %d of the mails in %s, which the server does not send", len(stems), self)

    def _warn(self, error: Exception) -> None:
        self._failed = True
        as_of = dt.datetime.fromtimestamp(self._as_of)
        said = f"{self} cannot be read: {self._words_of(error)}. Its mail is that of {as_of:%Y-%m-%d %H:%M}."
        _log.warning("%s", said)

    def _words_of(self, error: Exception) -> str:
        """Return why something has failed, but for words that repeat the password."""
        said = error.args[0] if error.args else ""
        words = said.decode(errors="replace") if isinstance(said, bytes) else str(error)
        if isinstance(error, OSError) and error.strerror:
            words = error.strerror
        secrets = (
            self._password,
            _quoted(self._password)[1:-1],
            base64.b64encode(self._credentials()).decode(),
        )
        if any(secret in words for secret in secrets):
            words = ""
        return printable(" ".join(words.split())).rstrip(".") or type(error).__name__

    def _credentials(self) -> bytes:
        return f"\0{self._address.user}\0{self._password}".encode("utf-8", "surrogateescape")


class _Bounded(imaplib.IMAP4):
    """A connection that takes no literal longer than what is asked for."""

    def read(self, size: int) -> bytes:
        if size > LARGEST_PART:
            raise self.abort(f"it sends {size} bytes at once")
        return super().read(size)


class _BoundedTls(_Bounded, imaplib.IMAP4_SSL):
    """Such a connection, encrypted."""


def open_mail(given: Sequence[str], tell: Callable[[str], None]) -> Mapping[str, ImapMail]:
    """Return the mail of each address among ``given``, addresses and paths. ``tell`` is told what is fetched.

    An account's password is asked for once, unless there is one account and the environment has it.

    Raises:
        ConfigurationError: a password is not known, or the mail cannot be read.
    """
    addresses = {text: address for text in given if (address := Address.parse(text))}
    passwords = dict.fromkeys((address.user, address.host) for address in addresses.values())
    alone = len(passwords) == 1
    mail = {}
    for text, address in addresses.items():
        account = address.user, address.host
        password = passwords[account] = passwords[account] or _password(*account, alone=alone)
        tell(f"Fetching what is new in {address}")
        mail[text] = ImapMail(address, password)
    return mail


def _password(user: str, host: str, *, alone: bool) -> str:
    password = os.environ.get(_VARIABLE, "") if alone else ""  # else another server would see it
    if not password and all(file is not None and file.isatty() for file in (sys.stdin, sys.stderr)):
        with suppress(EOFError):
            password = getpass.getpass(f"Password of {user} at {host}: ")
    if not password:
        also = f", or set {_VARIABLE}" if alone else f"; {_VARIABLE} is that of one account alone"
        raise ConfigurationError(f"the password of {user} at {host} is missing. Type it on a terminal{also}.")
    return password


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _modified_utf7(name: str) -> str:
    """Return the name of a folder as IMAP writes it, see RFC 3501, section 5.1.3."""

    def encoded(found: re.Match[str]) -> str:
        base = base64.b64encode(found[0].encode("utf-16-be")).rstrip(b"=").replace(b"/", b",")
        return f"&{base.decode()}-"

    return re.sub("[^ -~]+", encoded, name.replace("&", "&-"))


def _number(answer: Sequence[Any]) -> int:
    if not isinstance(answer[-1], bytes) or not re.fullmatch(rb"[0-9]{1,10}", answer[-1]):
        raise ValueError("it does not say which mails the folder has")
    return int(answer[-1])


def _contents(server: imaplib.IMAP4, uids: Sequence[int]) -> dict[int, bytes]:
    """Return the beginnings of mails, as far as they are sent, by UID. PEEK leaves them unread."""
    wanted = f"(UID BODY.PEEK[]<0.{LARGEST_PART}>)"
    contents = {}
    for text, content in _fetched(server.uid("FETCH", ",".join(map(str, uids)), wanted)):
        if content is not None and (uid := _UID.search(text)) and int(uid[1]) in uids:
            contents[int(uid[1])] = content
    return contents


def _fetched(answer: tuple[str, Sequence[Any]]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield of each mail what is said about it, and the literal therein, if there is one."""
    status, data = answer
    if status != "OK":
        raise imaplib.IMAP4.abort(*data)
    for part, behind in itertools.zip_longest(data, data[1:]):
        if isinstance(part, tuple):
            yield part[0] + (behind if isinstance(behind, bytes) else b""), part[1]
        elif part:
            yield part, None
