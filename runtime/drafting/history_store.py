"""What apps have generated, on disk, to retrieve drafts from after a restart, too (sd.npu §3.1)."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..files.file_lock import file_lock
from ..files.regular_file import NotAFileError, open_regular
from .suffix_index import SEPARATOR

logger = logging.getLogger(__name__)

MAX_TOKENS: Final = 131_072
"""Tokens that are kept of one app: files of 512 KiB."""
MAX_APPS: Final = 64
"""Apps of which answers are kept for one tokenizer, those saved last: folders of 32 MiB."""

_MAGIC: Final = b"agentrt answers 1\n"
_DIGEST_BYTES: Final = 32
_HEADER_BYTES: Final = len(_MAGIC) + 2 * _DIGEST_BYTES
_SUFFIX: Final = ".answers"

Tokens = NDArray[np.int32]


class _RefusedError(Exception):
    """Why the answers in a file are not used."""


class HistoryStore:
    """A folder with a file of answers for each app. Several processes may share it.

    Only the user can read the files. They are replaced atomically. Their checksums cover the app's name and
    the tokenizer, so that a damaged file, or that of another app or tokenizer, is never used: it is renamed,
    with a warning, and the app's history begins anew.
    """

    def __init__(self, folder: Path, tokenizer: bytes) -> None:
        """``folder`` is created at the first write. ``tokenizer`` is :attr:`Tokenizer.fingerprint`."""
        self._tokenizer = _digest(tokenizer)
        self._folder = folder / self._tokenizer.hex()[:16]

    def file_of(self, app: str) -> Path:
        """Return the file that the answers of ``app`` are kept in."""
        return self._folder / f"{_digest(app.encode()).hex()[:32]}{_SUFFIX}"

    def load(self, app: str) -> Tokens:
        """Return the newest answers of ``app``, the newest last, each followed by :data:`SEPARATOR`.

        Raises:
            OSError: they cannot be read.
        """
        if not self.file_of(app).exists():
            return _NO_TOKENS
        try:
            return self._read(app)
        except _RefusedError:
            with self._lock():
                return self._read_or_set_aside(app)

    def add(self, app: str, answers: Sequence[int]) -> None:
        """Add answers, each followed by :data:`SEPARATOR`, to those of ``app``; drop the oldest beyond 128k.

        Raises:
            OSError: they cannot be written; the earlier ones are kept.
        """
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with self._lock():
            earlier = self._read_or_set_aside(app)
            self._write(app, _newest(np.append(earlier, np.array(answers, np.int32))))
            self._drop_oldest_apps()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with file_lock(self._folder / ".lock"):
            yield

    def _read_or_set_aside(self, app: str) -> Tokens:
        """Read the file; rename it if it is refused. Call it with the lock: others may replace the file."""
        try:
            return self._read(app)
        except _RefusedError as refused:
            file = self.file_of(app)
            names = (file.with_suffix(f".refused-{number}") for number in itertools.count(1))
            aside = next(name for name in names if not name.exists())
            file.rename(aside)
            logger.warning(
                "The stored answers of an app are not used, as %s. They are kept as %s; delete that file if "
                "you do not need it. The app's history begins anew.",
                refused,
                aside,
            )
            return _NO_TOKENS

    def _read(self, app: str) -> Tokens:
        try:
            with open(self.file_of(app), "rb", opener=open_regular) as stream:
                content = stream.read(_HEADER_BYTES + 4 * MAX_TOKENS + 1)
        except FileNotFoundError:
            return _NO_TOKENS
        except NotAFileError as error:
            raise _RefusedError("something else lies where the file should be") from error
        return self._decode(app, content)

    def _decode(self, app: str, content: bytes) -> Tokens:
        header, body = content[:_HEADER_BYTES], content[_HEADER_BYTES:]
        tokenizer = header[len(_MAGIC) : -_DIGEST_BYTES]
        if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES:
            raise _RefusedError("the file is no file of answers of this version, or is damaged")
        if tokenizer != self._tokenizer:
            raise _RefusedError("they are of another tokenizer")
        if header != self._header(app, body):
            raise _RefusedError("the file is damaged, or is that of another app")
        return np.frombuffer(body, "<i4").astype(np.int32)

    def _header(self, app: str, body: bytes) -> bytes:
        checksum = hashlib.blake2b(body, key=_digest(app.encode()), digest_size=_DIGEST_BYTES).digest()
        return _MAGIC + self._tokenizer + checksum

    def _write(self, app: str, answers: Tokens) -> None:
        file = self.file_of(app)
        body = answers.astype("<i4").tobytes()
        # One name for all writes, so that killed processes leave at most one file; the lock is held.
        unfinished = file.with_suffix(".unfinished")
        try:
            with open(unfinished, "wb", opener=_open_private) as stream:
                stream.write(self._header(app, body) + body)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(unfinished, file)
        except NotAFileError:
            raise  # it is not what an earlier write has left
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def _drop_oldest_apps(self) -> None:
        files = sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
        for file in files[:-MAX_APPS]:
            file.unlink()


_NO_TOKENS: Final = np.empty(0, np.int32)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _newest(answers: Tokens) -> Tokens:
    """Return the newest answers that together are at most :data:`MAX_TOKENS`; of a longer one, its end."""
    if len(answers) <= MAX_TOKENS:
        return answers
    newest = answers[-MAX_TOKENS - 1 :]  # with the end of the answer before, if it is one
    ends = np.flatnonzero(newest[:-1] == SEPARATOR)
    return newest[ends[0] + 1 if len(ends) else 1 :]


def _open_private(path: str, flags: int) -> int:
    return open_regular(path, flags | getattr(os, "O_NOFOLLOW", 0))
