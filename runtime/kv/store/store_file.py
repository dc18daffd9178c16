"""The file ``store`` of a folder: what the block hashes of its contexts are salted by."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from agentrt.errors import ContextKeyError, ContextStoreError

from ..block_hashes import PrefixSalts
from .disk import Disk
from .record_file import RecordFile
from .record_format import FileKind, FileStart, OtherKeyError, OtherVersionError, RefusedError
from .refusals import Refusals

NAME: Final = "store"
_SECRET_BYTES: Final = 16


class StoreFile:
    """The secret of a store, and the salts of its apps. Changes hold the lock of the store."""

    def __init__(self, folder: Path, disk: Disk, key: bytes | None, refusals: Refusals) -> None:
        """Read the file of ``folder``, or create it. A damaged one is set aside.

        Raises:
            ContextKeyError: it was written with another key, or with or without one.
            ContextStoreError: it was written by another version of agentrt.
            OSError: it cannot be read or written.
        """
        self._path = folder / NAME
        self._disk = disk
        self._key = key
        self._file = self._open(refusals) or self._create()
        header = self._file.header
        self.secret: Final = bytes.fromhex(header["secret"])
        renewals = {app: bytes.fromhex(renewal) for app, renewal in header.get("renewals", {}).items()}
        self.salts: Final = PrefixSalts(self.secret, renewals)

    def renew_salt(self, app: str) -> None:
        """Give ``app`` another salt, also after a restart.

        Raises:
            OSError: the file cannot be written; the salt is another one until a restart.
        """
        renewals = {**self._file.header.get("renewals", {}), app: self.salts.renew(app).hex()}
        start = FileStart.new(FileKind.STORE, {**self._file.header, "renewals": renewals}, self._key)
        self._file, _ = RecordFile.replace(self._file, start, [])
        self._disk.sync_folder(self._path.parent)

    def _open(self, refusals: Refusals) -> RecordFile | None:
        try:
            file, _ = RecordFile.open(self._disk, self._path, FileKind.STORE, self._key)
            return file
        except OtherVersionError as error:
            raise ContextStoreError(
                f"{self._path} {error}: another version of agentrt wrote it. Use that one, or another folder."
            ) from error
        except OtherKeyError as error:
            raise ContextKeyError(
                f"the contexts in {self._path.parent} cannot be opened: {self._path} {error}. Open them with "
                "the key that they were created with, or without one."
            ) from error
        except RefusedError as error:
            refusals.set_aside(self._path, error, "All KV is recomputed; the texts of the contexts are kept.")
        except FileNotFoundError:
            pass
        return None

    def _create(self) -> RecordFile:
        secret = secrets.token_bytes(_SECRET_BYTES)
        start = FileStart.new(FileKind.STORE, {"secret": secret.hex()}, self._key)
        return RecordFile.create(self._disk, self._path, start)
