"""The app that sends a request, known by its token or by the user at the other end of a Unix socket."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from agentrt.errors import ConfigurationError

LOCAL_APP = "local"
"""The app of requests without a token or a known user."""

_MIN_CHARACTERS = 16


class Tokens:
    """The tokens of a server's apps. It holds digests only, so that comparison times reveal no token."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """``pairs`` are app and token."""
        self._apps = {_digest(token): app for app, token in pairs}

    @classmethod
    def mint(cls) -> tuple[Self, str]:
        """Return a fresh token for the app ``default``: the tokens object, and the token to show once."""
        token = f"agentrt-{secrets.token_urlsafe(24)}"
        return cls([("default", token)]), token

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of lines ``APP TOKEN``; blank lines and lines that start with ``#`` are skipped.

        A missing file is created with a fresh token for the app ``default``, readable by its owner only.

        Raises:
            ConfigurationError: the file cannot be read or created, other users may read it, a line is not
                such a pair, or there is no pair.
        """
        try:
            text = _read_private_file(path)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"cannot use {path} as a token file ({error}). Use a text file of your own, or a path in an "
                "existing folder, where it is created."
            ) from error
        pairs = list(_pairs(path, text))
        if not pairs:
            raise ConfigurationError(f"{path} holds no token. Delete it, and it is created afresh.")
        return cls(pairs)

    def app_of(self, authorization: str) -> str | None:
        """Return the app whose token an ``Authorization`` header carries, or None."""
        scheme, _, token = authorization.partition(" ")
        return self._apps.get(_digest(token.strip())) if scheme.lower() == "bearer" else None


def peer_app(connection: socket.socket | None) -> str:
    """Return the user at the other end of a Unix socket as an app; :data:`LOCAL_APP` if it is not known."""
    if connection is None or connection.family != getattr(socket, "AF_UNIX", None):
        return LOCAL_APP
    if hasattr(socket, "SO_PEERCRED"):
        _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return f"user {user}"
    return LOCAL_APP


def _read_private_file(path: Path) -> str:
    """Return the text of a token file, which is created if it is missing."""
    if not path.exists():
        _, token = Tokens.mint()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(f"# app token\ndefault {token}\n")
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(f"other users may read {path}. Run: chmod 600 {path}")
    return path.read_text(encoding="utf-8")


def _pairs(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or len(words[1]) < _MIN_CHARACTERS:
            raise ConfigurationError(
                f"{path}, line {number} is not an app's name and a token of at least "
                f"{_MIN_CHARACTERS} characters, separated by a space. Correct it."
            )
        yield words[0], words[1]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
