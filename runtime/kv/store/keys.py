"""Keys of encrypted stores: in a file that only its owner can read, or in the keyring of the system."""

from __future__ import annotations

import importlib
import os
import secrets
from pathlib import Path
from typing import Any, Final, Protocol

from agentrt.errors import ContextKeyError

from ...files.own_file import OwnFileError, read_own_file
from .chunk_files import Disk
from .sealing import KEY_BYTES

_SERVICE = "agentrt contexts"


class KeySource(Protocol):
    """Where the key of a store is kept."""

    @property
    def name(self) -> str:
        """What the key is called in messages."""

    def load(self) -> bytes | None:
        """Return the key, or None if there is none yet.

        Raises:
            ContextKeyError: it cannot be read, or other users can read it.
        """

    def create(self) -> bytes:
        """Draw a key, keep it and return it.

        Raises:
            ContextKeyError: it cannot be kept.
        """


class KeyFile:
    """A key in a file: 64 hexadecimal digits. Losing the file is losing the contexts."""

    def __init__(self, path: Path) -> None:
        """``path`` is created when the first store is; its folder exists."""
        self._path = path
        self.name: Final = f"the key file {path}"
        """See :attr:`KeySource.name`."""

    def load(self) -> bytes | None:
        """See :meth:`KeySource.load`."""
        if not os.path.lexists(self._path):
            return None
        try:
            return _parsed(read_own_file(self._path), self.name)
        except OwnFileError as error:
            raise ContextKeyError(f"{self.name} cannot be used: {error}.") from error

    def create(self) -> bytes:
        """See :meth:`KeySource.create`."""
        key = secrets.token_bytes(KEY_BYTES)
        unfinished = self._path.with_name(f"{self._path.name}.unfinished")
        try:
            unfinished.unlink(missing_ok=True)  # of a process that was killed
            Disk().write(unfinished, key.hex().encode() + b"\n", synced=True)
            unfinished.rename(self._path)
        except OSError as error:
            raise ContextKeyError(
                f"{self.name} cannot be created: {error.strerror}. Name a file in a folder of your own."
            ) from error
        return key


class KeyringKey:
    """A key in the keyring of the system, through the package keyring."""

    def __init__(self, name: str) -> None:
        """``name`` tells it from other keys of agentrt."""
        self._name = name
        self.name: Final = f"the key {name!r} in the keyring"
        """See :attr:`KeySource.name`."""

    def load(self) -> bytes | None:
        """See :meth:`KeySource.load`."""
        found = self._call("get_password", _SERVICE, self._name)
        return None if found is None else _parsed(found, self.name)

    def create(self) -> bytes:
        """See :meth:`KeySource.create`."""
        key = secrets.token_bytes(KEY_BYTES)
        self._call("set_password", _SERVICE, self._name, key.hex())
        return key

    def _call(self, function: str, *arguments: str) -> Any:
        try:
            # Not a dependency: who keeps the key in a file does not need it.
            keyring = importlib.import_module("keyring")
        except ModuleNotFoundError:
            raise ContextKeyError(
                "keyring is not installed. Run: pip install keyring, or keep the key in a file."
            ) from None
        try:
            return getattr(keyring, function)(*arguments)
        except keyring.errors.KeyringError as error:
            raise ContextKeyError(
                f"the keyring of the system cannot be used: {error}. Unlock it, or keep the key in a file."
            ) from error


def _parsed(text: str, what: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ContextKeyError(f"{what} is not {2 * KEY_BYTES} hexadecimal digits. Restore it.")
    return key
