"""Who asks: an app, known by its token or by the user at the other end of a Unix socket."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from agentrt.errors import ConfigurationError

ANYONE = "local"
"""The app of requests that carry nothing to tell one from another."""

_LEAST_CHARACTERS = 16


class Tokens:
    """The tokens of a server's apps. Holds digests only, so that comparing takes no hint from a token."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """``pairs`` are app and token."""
        self._apps = {_digest(token): app for app, token in pairs}

    @classmethod
    def mint(cls) -> tuple[Self, str]:
        """One fresh token for one app, and the token itself, to be shown once."""
        token = f"agentrt-{secrets.token_urlsafe(24)}"
        return cls([("default", token)]), token

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of lines ``APP TOKEN``; blank lines and lines that start with ``#`` are skipped.

        A file that is not there is written with a fresh token for the app ``default``, for its owner only.

        Raises:
            ConfigurationError: others may read it, or a line is not such a pair, or there is none.
        """
        if not path.exists():
            _, token = cls.mint()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(f"# app token\ndefault {token}\n")
        if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigurationError(f"other users may read {path}. Run: chmod 600 {path}")
        pairs: list[tuple[str, str]] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 2 or len(words[1]) < _LEAST_CHARACTERS:
                raise ConfigurationError(
                    f"{path}, line {number} is not an app's name and a token of at least "
                    f"{_LEAST_CHARACTERS} characters, separated by a space. Correct it."
                )
            pairs.append((words[0], words[1]))
        if not pairs:
            raise ConfigurationError(f"{path} holds no token. Delete it, and it is written afresh.")
        return cls(pairs)

    def app_of(self, authorization: str) -> str | None:
        """The app whose token an ``Authorization`` header carries, or None."""
        scheme, _, token = authorization.partition(" ")
        return self._apps.get(_digest(token.strip())) if scheme.lower() == "bearer" else None


def peer_app(connection: socket.socket | None) -> str:
    """The user at the other end of a Unix socket as an app; :data:`ANYONE` where the system does not say."""
    if connection is None or connection.family != getattr(socket, "AF_UNIX", None):
        return ANYONE
    if hasattr(socket, "SO_PEERCRED"):
        _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return f"user {user}"
    return ANYONE


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
