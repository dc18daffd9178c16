"""One context on disk: its text in a file of its own, and its chunks in the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agentrt.errors import ContextDamagedError, ContextNotFoundError

from .changes import Changes, disk_errors
from .chunk_library import ChunkLibrary, Owner
from .chunks import Chunk
from .disk import Disk
from .record_file import RecordFile
from .record_format import FileKind, FileStart, NewRecord, Record, RefusedError
from .sealing import Seal, SealBrokenError
from .usage import Usage

_TEXT_RECORD: Final = 1


class Text(NamedTuple):
    """The file of a text, and its records."""

    file: RecordFile
    records: tuple[Record, ...]


class StoredContext:
    """The text of one conversation, which is kept until it is deleted, and the KV chunks that it uses.

    Thread-safe. Methods that write or read wait for the disk, and raise

    - :class:`ContextStoreError`: the disk is full or fails, and nothing was changed; or the store was closed;
    - :class:`ContextNotFoundError`: the context was deleted.
    """

    def __init__(
        self,
        owner: Owner,
        text: Text,
        disk: Disk,
        key: bytes | None,
        chunks: ChunkLibrary,
        usage: Usage,
        changes: Changes,
        on_refused: Callable[[StoredContext, RefusedError], None],
    ) -> None:
        """``on_refused`` removes this context, whose text cannot be used."""
        self.owner: Final = owner
        """App, id, and the name of the files."""
        self._text = text
        self._disk = disk
        self._key = key
        self._chunks = chunks
        self._usage = usage
        self._changes = changes
        self._on_refused = on_refused
        self.app: Final = owner.app
        """The app that it belongs to."""
        self.id: Final = owner.context_id
        """Its name within the app."""
        self.header: Final[Mapping[str, Any]] = text.file.header["header"]
        """What it was created with."""
        self.deleted = False
        """Whether it was deleted, or removed because its text is damaged."""
        self._stamped_ns = usage.used_ns(owner.name)

    @property
    def text_records(self) -> int:
        """The number of records of its text."""
        return len(self._text.records)

    @property
    def block_hashes(self) -> list[bytes]:
        """The hashes of the chunks that it has stored or refers to, some of which may be gone."""
        return self._chunks.used_by(self.owner.name)

    @property
    def bytes_on_disk(self) -> int:
        """The size of its files. Chunks that it refers to are in files of other contexts."""
        return self._usage.bytes_of(self.owner.name)

    @property
    def used(self) -> float:
        """When it was last used: Unix time in seconds."""
        return self._usage.used_ns(self.owner.name) / 1e9

    def touch(self) -> None:
        """Make it the most recently used context, without I/O; see :meth:`stamp`. Writing does so, too."""
        self._usage.touch(self.owner.name)

    def stamp(self) -> None:
        """Keep the time of its last use across restarts; no I/O if it is kept already. Not synced."""
        used_ns = self._usage.used_ns(self.owner.name)
        if used_ns != self._stamped_ns and not self.deleted:
            self._disk.stamp(self._text.file.path, used_ns)
            self._stamped_ns = used_ns

    def append_text(self, record: bytes) -> None:
        """Append ``record`` to the text; when this returns, it is on the device.

        Text is never refused for a quota: chunks are dropped to make room for it.

        Raises:
            ContextDamagedError: the file of the text was changed or deleted by another program.
        """
        with self._changes.exclusive():
            self._check_exists()
            file, records = self._text
            new = _text_record(file.seal, len(records), record)
            self._usage.touch(self.owner.name)
            self._chunks.make_room(self.app, file.cost(0, new.payload_bytes))
            try:
                written = self._chunks.freeing_space(lambda: file.append([new]))
            except RefusedError as refused:
                raise self._damaged(refused) from refused
            self._set_text(Text(file, (*records, *written)))

    def replace_text(self, records: Sequence[bytes]) -> None:
        """Replace the text atomically; when this returns, the old one is no longer on the device."""
        with self._changes.exclusive():
            self._check_exists()
            start = FileStart.new(FileKind.TEXT, self._text.file.header, self._key)
            new = [_text_record(start.seal, index, record) for index, record in enumerate(records)]
            self._usage.touch(self.owner.name)
            added = len(start.content) + sum(start.cost(0, each.payload_bytes) for each in new)
            self._chunks.make_room(self.app, added)
            old = self._text.file
            file, written = self._chunks.freeing_space(lambda: RecordFile.replace(old, start, new))
            self._set_text(Text(file, tuple(written)))
            self._disk.sync_folder(file.path.parent)

    def read_text(self) -> list[bytes]:
        """Return the records of the text, the oldest first.

        Raises:
            ContextDamagedError: the text is damaged or gone. Its file is set aside and the context removed.
        """
        self._check_exists()
        text = self._text
        try:
            with disk_errors(text.file.path.parent):
                return _read(text)
        except (RefusedError, SealBrokenError) as error:
            with self._changes.exclusive():
                self._check_exists()
                if self._text.file is not text.file:  # it was replaced meanwhile
                    return self.read_text()
                refused = error if isinstance(error, RefusedError) else RefusedError("is damaged")
                raise self._damaged(refused) from error

    def append_chunks(self, chunks: Sequence[Chunk]) -> int:
        """Store ``chunks`` in one go, and return how many of the first ones are stored now.

        A chunk that the app has stored already, at whatever level, stays as it is, and is referred to. Where
        a quota would be exceeded, chunks of the contexts that were used longest ago are dropped; what does
        not fit even so is not stored. Nothing is without a fingerprint
        (:meth:`ContextStore.use_fingerprint`).
        """
        with self._changes.exclusive():
            self._check_exists()
            return self._chunks.append(self.owner, chunks)

    def refer_to(self, block_hashes: Iterable[bytes]) -> list[bytes]:
        """Note that this context uses the chunks of these hashes, and return the hashes that are not stored.

        A chunk that it uses is inherited when the context that has stored it is deleted.
        """
        with self._changes.exclusive():
            self._check_exists()
            missing = self._chunks.refer_to(self.owner, block_hashes)
            self.stamp()  # where nothing was written there is no other trace of this use
            return missing

    def _set_text(self, text: Text) -> None:
        self._text = text
        self._usage.set_bytes(self.owner.name, text=text.file.size)
        self._stamped_ns = self._usage.used_ns(self.owner.name)
        self._disk.stamp(text.file.path, self._stamped_ns)

    def _check_exists(self) -> None:
        if self.deleted:
            raise ContextNotFoundError(self.id)

    def _damaged(self, refused: RefusedError) -> ContextDamagedError:
        self._on_refused(self, refused)
        return ContextDamagedError(
            f"the text of the context {self.id!r} cannot be used, as its file {refused}. The file was set "
            "aside, and the context removed. Create it again."
        )


def _text_record(seal: Seal, index: int, record: bytes) -> NewRecord:
    return NewRecord(_TEXT_RECORD, b"", [seal.seal(record, _place(index))])


def _read(text: Text) -> list[bytes]:
    file, records = text
    parts = file.read([(record.payload_offset, record.payload_bytes) for record in records])
    return [file.seal.unseal(sealed, _place(index)) for index, sealed in enumerate(parts)]


def _place(index: int) -> bytes:
    """Return what the record ``index`` of a text is sealed for."""
    return b"text" + index.to_bytes(8, "little")
