"""The app that sends a request, known by its token or by the user at the other end of a Unix socket."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import struct
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from agentrt.errors import ConfigurationError
from agentrt.own_files import OwnFileError, read_own_file

LOCAL_APP = "local"
"""The app of requests without a token or a known user."""
METRICS_READER: Final = "@metrics"
"""The name of tokens that read ``/metrics`` and nothing else, in place of an app's."""
_MIN_CHARACTERS: Final = 16
_MAX_LINES_SHOWN: Final = 10
"""Wrong lines of a token file that an error names."""


class Tokens:
    """The tokens of a server's apps. It holds digests only, so that comparison times reveal no token."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """``pairs`` are app, or :data:`METRICS_READER`, and token. An app may have several tokens.

        The first app is the owner's.

        Raises:
            ConfigurationError: two apps have the same token.
        """
        self._apps: dict[bytes, str] = {}
        for app, token in pairs:
            other = self._apps.setdefault(_digest(token), app)
            if other != app:
                raise ConfigurationError(
                    f"the apps {other!r} and {app!r} have the same token. Give each app its own."
                )
        self.owner = next((app for app in self._apps.values() if app != METRICS_READER), None)
        """The app that may see what all apps do."""
        self.apps = frozenset(self._apps.values())

    @classmethod
    def mint(cls) -> tuple[Self, str]:
        """Return a fresh token for the app ``default``: the tokens object, and the token to show once."""
        token = f"agentrt-{secrets.token_urlsafe(24)}"
        return cls([("default", token)]), token

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of lines ``APP TOKEN``; blank lines and lines that start with ``#`` are skipped.

        A missing file is created with a fresh token for the app ``default`` and one that reads metrics,
        readable by its owner only.

        Raises:
            ConfigurationError: the file cannot be read or created, another user owns it or may read it, a
                line is not such a pair, no app has a token, or two have the same.
        """
        if not os.path.lexists(path):
            _create(path)
        pairs = _pairs_of(path)
        try:
            return cls(pairs)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from None

    def app_of(self, authorization: str) -> str | None:
        """Return the app whose token an ``Authorization`` header carries, or None."""
        scheme, _, token = authorization.partition(" ")
        return self._apps.get(_digest(token.strip())) if scheme.lower() == "bearer" else None

    def secret_of(self, app: str) -> bytes:
        """Return what only those know who have the digests of the app's tokens, such as its other servers."""
        digests = sorted(digest for digest, owner in self._apps.items() if owner == app)
        return hashlib.sha256(b"".join(digests)).digest()


def peer_app(connection: socket.socket | None) -> str:
    """Return the user at the other end of a Unix socket as an app; :data:`LOCAL_APP` if it is not known."""
    if connection is not None and hasattr(socket, "SO_PEERCRED") and connection.family == socket.AF_UNIX:
        _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return f"user {user}"
    return LOCAL_APP


def _create(path: Path) -> None:
    """Create a token file, whole or not at all. A file that is created at the same time stays as it is."""
    (_, token), (_, reader) = Tokens.mint(), Tokens.mint()
    try:
        descriptor, written = tempfile.mkstemp(prefix=".tokens-", dir=path.parent)  # mode 0600
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(f"# app token\n{METRICS_READER} {reader}\ndefault {token}\n")
            with suppress(FileExistsError):
                os.link(written, path)
        finally:
            os.unlink(written)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise ConfigurationError(
            f"the token file {path} cannot be created: {reason}. Name a file in a folder of your own."
        ) from error


def _pairs_of(path: Path) -> list[tuple[str, str]]:
    """Return the apps and tokens of a file, among which is one of an app."""
    try:
        text = read_own_file(path)
    except OwnFileError as error:
        raise ConfigurationError(f"the token file {path} cannot be used: {error}.") from error
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, words) for number, words in lines if words and not words[0].startswith("#")]
    if wrong := [str(number) for number, words in lines if not _is_pair(words)]:
        shown = ", ".join(wrong[:_MAX_LINES_SHOWN])
        more = f" and {len(wrong) - _MAX_LINES_SHOWN} more" if len(wrong) > _MAX_LINES_SHOWN else ""
        raise ConfigurationError(
            f"{path}, line{'s' * (len(wrong) > 1)} {shown}{more}: not an app's name and a token of at least "
            f"{_MIN_CHARACTERS} ASCII characters, separated by a space. Correct each. Of the names that "
            f"begin with @ there is {METRICS_READER} only."
        )
    pairs = [(app, token) for _, (app, token) in lines]
    if all(app == METRICS_READER for app, _ in pairs):
        raise ConfigurationError(
            f"{path} holds no token of an app. Delete it, and the server creates it afresh."
        )
    return pairs


def _is_pair(words: Sequence[str]) -> bool:
    if len(words) != 2 or (words[0].startswith("@") and words[0] != METRICS_READER):
        return False
    return len(words[1]) >= _MIN_CHARACTERS and words[1].isascii()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
