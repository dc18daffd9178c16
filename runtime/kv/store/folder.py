"""The folder of a store: private, of this format, opened with its key, and repaired where it is damaged.

The key is in a file that only its owner can read, or in the keyring of the system.
"""

from __future__ import annotations

import errno
import importlib
import json
import logging
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from agentrt.errors import ContextKeyError, ContextStoreError
from agentrt.own_files import OwnFileError, read_own_file
from agentrt.private_database import DatabaseProblem, OtherFormatError, problem_of, set_aside

from ..block_hashes import PrefixSalts
from .chunk_files import Disk
from .context_database import NAME, ContextDatabase, disk_errors
from .sealing import KEY_BYTES, SealBrokenError, checksum, sealer

logger = logging.getLogger(__name__)

_SERVICE: Final = "agentrt contexts"
_SECRET_BYTES: Final = 16
_DAMAGE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What reading a damaged database raises; the second where SQLite's message has a name of it."""
_CHECKSUM_BYTES: Final = len(checksum())


class KeyFile:
    """A key in a file: 64 hexadecimal digits. Losing the file is losing the contexts.

    Methods raise :class:`ContextKeyError` where it cannot be read or kept, or other users can read it.
    """

    def __init__(self, path: Path) -> None:
        """``path`` is created when the first store is; its folder exists."""
        self._path = path
        self.name: Final = f"the key file {path}"
        """What it is called in messages."""

    def load(self) -> bytes | None:
        """Return the key, or None if there is none yet."""
        if not os.path.lexists(self._path):
            return None
        try:
            return _key_of(read_own_file(self._path), self.name)
        except OwnFileError as error:
            raise ContextKeyError(f"{self.name} cannot be used: {error}.") from error

    def create(self) -> bytes:
        """Draw a key, keep it and return it."""
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
        """See :attr:`KeyFile.name`."""

    def load(self) -> bytes | None:
        """See :meth:`KeyFile.load`."""
        found = self._call("get_password", _SERVICE, self._name)
        return None if found is None else _key_of(found, self.name)

    def create(self) -> bytes:
        """See :meth:`KeyFile.create`."""
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


KeySource: TypeAlias = KeyFile | KeyringKey


class Secrets:
    """What the block hashes of a store are salted by, kept in its database."""

    def __init__(self, database: ContextDatabase, *, encrypted: bool) -> None:
        """Read the secrets, or draw new ones where there are none or they are damaged."""
        self._database = database
        self._seal = database.sealer(b"")
        self._encrypted = encrypted
        found = _parsed(database.setting("secrets"))
        if found is not None:
            self._fields = json.loads(self._seal.unseal(found[1], b"secrets"))
        else:
            self._fields = {"secret": secrets.token_hex(_SECRET_BYTES), "renewals": {}}
            with database.change():
                self._write()
        self.secret: Final = bytes.fromhex(self._fields["secret"])
        renewals = {app: bytes.fromhex(renewal) for app, renewal in self._fields["renewals"].items()}
        self.salts: Final = PrefixSalts(self.secret, renewals)

    def renew_salt(self, app: str) -> None:
        """Give ``app`` another salt, also after a restart: until then only if the database cannot be written.

        Called within a change of it.
        """
        self._fields["renewals"][app] = self.salts.renew(app).hex()
        self._write()

    def _write(self) -> None:
        sealed = self._seal.seal(json.dumps(self._fields).encode(), b"secrets")
        value = bytes([self._encrypted]) + sealed
        value += checksum(value)  # so that damage is told from another key
        self._database.execute("INSERT OR REPLACE INTO setting VALUES ('secrets', ?)", (value,))


def make_private_folder(folder: Path) -> None:
    """Create ``folder`` if it is missing; log a warning if other users may use one that is there.

    Raises:
        OSError: it cannot be created, or something else lies there.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is no folder") from None
    if os.name == "posix" and folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        logger.warning("Other users may look into %s, which has contexts. Run: chmod 700 %s", folder, folder)


def open_folder(folder: Path) -> tuple[ContextDatabase, bool]:
    """Open the database of a folder that this process has locked; return it, and whether it was damaged.

    Raises:
        ContextStoreError: another version of agentrt has written it.
        sqlite3.Error, OSError: it cannot be read or written.
    """
    try:
        return open_database(folder), False
    except sqlite3.DatabaseError as error:
        if problem_of(error) is not DatabaseProblem.DAMAGED:
            raise
        return _salvaged(folder / NAME), True


def open_database(folder: Path) -> ContextDatabase:
    """Open the database of a folder as it is. Where another process has locked the folder, only read it.

    Raises:
        ContextStoreError: another version of agentrt has written it.
        sqlite3.Error, OSError: it is damaged, or cannot be read.
    """
    path = folder / NAME
    try:
        return ContextDatabase(path)
    except OtherFormatError as error:
        raise ContextStoreError(
            f"{path} was written by another version of agentrt. Use that one, or another folder."
        ) from error


def use_key(database: ContextDatabase, source: KeySource | None) -> bool:
    """Seal by the key of ``source``, which must be that of the database; return whether there is one.

    A key is drawn for a new database.

    Raises:
        ContextKeyError: it was written with another key, or with or without one, or the key is missing.
    """
    key = None if source is None else source.load()
    folder, found = database.path.parent, _parsed(database.setting("secrets"))
    is_sealed = any(True for _ in database.contexts()) if found is None else found[0]
    if is_sealed and source is not None and key is None:
        raise ContextKeyError(
            f"the contexts in {folder} need their key, and {source.name} is missing. Restore it."
        )
    difference = _difference(found, source is not None, key)
    if difference is not None:
        raise ContextKeyError(
            f"the contexts in {folder} cannot be opened: {database.path} {difference}. Open them with the "
            "key that they were created with, or without one."
        )
    if source is not None:
        database.sealer = sealer(key or source.create())
    known = list(database.contexts()) if found is None else []
    if known and not any("id" in fields for fields in known):
        raise ContextKeyError(
            f"the contexts in {folder} cannot be opened: the secrets in {database.path} are damaged, and no "
            "context was written with this key. Open them with the one that they were created with."
        )
    return source is not None


def check_encrypted_alike(folder: Path, source: KeySource | None) -> None:
    """Check that the stores beside ``folder`` are encrypted as its own is to be: with the key of ``source``.

    Raises:
        ContextKeyError: one of them is not.
        ContextStoreError: one of them cannot be read.
    """
    with disk_errors(folder.parent):
        files = sorted(folder.parent.glob(f"*/{NAME}"))
        others = [file for file in files if file.parent != folder and file.is_file()]
        if not others:
            return
        key = None if source is None else source.load()
        for file in others:
            difference = None
            # Damaged, of another version, or gone: it says so itself when it is opened.
            with suppress(*_DAMAGE), closing(_reader(file)) as database:
                ((value,),) = database.execute("SELECT value FROM setting WHERE name = 'secrets'")
                difference = _difference(_parsed(value), source is not None, key)
            if difference is not None:
                raise ContextKeyError(
                    f"{file} {difference}. The contexts of all models in {folder.parent} are encrypted with "
                    "one key, or none are: use the same context_key, or another context_folder."
                )


def _difference(secrets: tuple[bool, bytes] | None, wanted: bool, key: bytes | None) -> str | None:
    """Return why a database of these secrets cannot be used with a key, or without one if none is wanted."""
    if secrets is None:
        return None  # it is new, or they are damaged
    encrypted, sealed = secrets
    if not encrypted:
        return "is not encrypted" if wanted else None
    if key is None:
        return "is encrypted, and there is no key"
    try:
        sealer(key)(b"").unseal(sealed, b"secrets")
    except SealBrokenError:
        return "is encrypted with another key"
    return None


def _parsed(value: bytes | None) -> tuple[bool, bytes] | None:
    """Return whether secrets are encrypted, and them, sealed; None if there are none or they are damaged."""
    if value is None or value[-_CHECKSUM_BYTES:] != checksum(value[:-_CHECKSUM_BYTES]):
        return None
    return bool(value[0]), value[1:-_CHECKSUM_BYTES]


def _reader(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing, and creates no file where nobody has the database open."""
    unchanging = not path.with_name(f"{path.name}-wal").exists()
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable={unchanging:d}", uri=True)


def _salvaged(path: Path) -> ContextDatabase:
    """Set a damaged database aside; return a new one with its settings and the contexts that can be read.

    What is copied is still sealed: a context that lacks something is found when it is used. KV is recomputed.
    """
    aside = set_aside(path)
    database = ContextDatabase(path)
    kept = 0
    with suppress(*_DAMAGE), closing(_reader(aside)) as damaged, database.change() as change:
        change.executemany("INSERT INTO setting VALUES (?, ?)", damaged.execute("SELECT * FROM setting"))
        for context, turns in _readable(damaged):
            change.execute("INSERT INTO context VALUES (?, ?, ?, ?)", context)
            change.executemany("INSERT INTO turn VALUES (?, ?, ?)", turns)
            kept += 1
    logger.warning(
        "%s is damaged. It is kept as %s; delete that file if you do not need it. %d contexts could be read "
        "and are kept, all KV is recomputed.",
        *(path, aside.name, kept),
    )
    return database


def _readable(damaged: sqlite3.Connection) -> Iterator[tuple[tuple[Any, ...], list[tuple[Any, ...]]]]:
    """Yield the rows of each context that can be read, from both sides of a damaged page."""
    ids = set()
    for order in ("ASC", "DESC"):
        with suppress(*_DAMAGE):
            for (id,) in damaged.execute(f"SELECT id FROM context ORDER BY id {order}"):
                ids.add(id)
    for id in sorted(ids):
        with suppress(*_DAMAGE):
            context = damaged.execute("SELECT * FROM context WHERE id = ?", (id,)).fetchone()
            turns = damaged.execute("SELECT * FROM turn WHERE context = ? ORDER BY place", (id,)).fetchall()
            yield context, turns


def _key_of(text: str, what: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ContextKeyError(f"{what} is not {2 * KEY_BYTES} hexadecimal digits. Restore it.")
    return key
