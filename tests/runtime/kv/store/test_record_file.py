"""Files of records that end anywhere, and records that grow."""

from __future__ import annotations

import errno
import os
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.kv.store.disk import Disk
from agentrt.runtime.kv.store.record_file import RecordFile
from agentrt.runtime.kv.store.record_format import FileKind, FileStart, NewRecord, RefusedError

KEYS = [None, b"k" * 32]


def create(path: Path, key: bytes | None) -> RecordFile:
    return RecordFile.create(Disk(), path, FileStart.new(FileKind.TEXT, {"title": "x"}, key))


@pytest.mark.parametrize("key", KEYS)
def test_a_file_that_ends_anywhere_has_the_records_that_are_complete(
    tmp_path: Path, key: bytes | None
) -> None:
    path = tmp_path / "file"
    file = create(path, key)
    ends = [file.size]
    for number in range(4):
        file.append([NewRecord(number, b"meta" * number, [b"payload", b"x" * number])])
        ends.append(file.size)
    content = path.read_bytes()
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        if length < ends[0]:
            with pytest.raises(RefusedError):
                RecordFile.open(Disk(), path, FileKind.TEXT, key)
            continue
        reopened, records = RecordFile.open(Disk(), path, FileKind.TEXT, key)
        assert len(records) == sum(end <= length for end in ends[1:])
        assert path.stat().st_size == reopened.size == ends[len(records)]
        (record,) = reopened.append([NewRecord(9, b"new", [b"content"])])
        assert RecordFile.open(Disk(), path, FileKind.TEXT, key)[1] == [*records, record]
        assert reopened.read([(record.payload_offset, record.payload_bytes)]) == [b"content"]


def test_several_records_are_appended_together(tmp_path: Path) -> None:
    file = create(tmp_path / "file", None)
    written = file.append([NewRecord(number, bytes([number]), [b"x" * number]) for number in range(5)])
    assert RecordFile.open(Disk(), file.path, FileKind.TEXT, None)[1] == written
    assert file.read([(record.payload_offset, record.payload_bytes) for record in written]) == [
        b"x" * number for number in range(5)
    ]


class CountingDisk(Disk):
    """A disk that notes which files are opened, and how many bytes each read returns."""

    def __init__(self) -> None:
        self.opened: list[Path] = []
        self.reads: list[int] = []
        self.expected: list[tuple[int, int]] = []

    def expect(self, stream: FileIO, offset: int, length: int) -> None:
        super().expect(stream, offset, length)
        self.expected.append((offset, length))

    def open(self, file: Path, flags: int = os.O_RDONLY) -> FileIO:
        disk = self

        class Counted(FileIO):
            def read(self, size: int | None = -1) -> bytes:
                content = super().read(size)
                disk.reads.append(len(content))
                return content

        self.opened.append(file)
        return Counted(file, "rb") if flags == os.O_RDONLY else super().open(file, flags)


def test_neighbours_are_read_together(tmp_path: Path) -> None:
    disk, path = CountingDisk(), tmp_path / "file"
    file = RecordFile.create(disk, path, FileStart.new(FileKind.CHUNKS, {}, None))
    contents = [bytes([number]) * size for number, size in enumerate((50, 60, 10**6, 70, 80))]
    parts = []
    for content in contents:
        (record,) = file.append([NewRecord(1, b"", [content])])
        parts.append((record.payload_offset, record.payload_bytes))
    disk.opened.clear()
    places = [4, 1, 0, 3]
    assert file.read([parts[place] for place in places]) == [contents[place] for place in places]
    assert disk.opened == [path]
    assert len(disk.reads) == 2, "in front of the long one, and behind it"
    assert sum(disk.reads) < 1000
    assert disk.expected == []
    file.read(parts[3:], parts[:2])
    assert disk.expected == [(parts[0][0], sum(parts[1]) - parts[0][0])]
    assert len(disk.reads) == 3, "what is expected is not waited for"
    assert file.read([]) == []


@pytest.mark.parametrize("key", KEYS)
def test_costs_are_what_appending_takes(tmp_path: Path, key: bytes | None) -> None:
    file = create(tmp_path / "file", key)
    for record in (NewRecord(1, b"", []), NewRecord(1, b"meta", [b"one", b"two"])):
        before = file.size
        file.append([record])
        assert (
            file.path.stat().st_size
            == file.size
            == before + file.cost(len(record.meta), record.payload_bytes)
        )


@pytest.mark.parametrize("content", [b"", b"agentrt", b"agentrt context\n", b"#!/bin/sh\n" * 100])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(RefusedError, match="is no file of a context"):
        RecordFile.open(Disk(), tmp_path / "file", FileKind.TEXT, None)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "file", None)
    with pytest.raises(RefusedError, match="is a file of another kind"):
        RecordFile.open(Disk(), tmp_path / "file", FileKind.CHUNKS, None)


@given(
    st.sampled_from(KEYS),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=40)), min_size=1, max_size=3),
)
def test_any_damage_is_refused_or_loses_the_last_records(
    key: bytes | None, damages: list[tuple[float, int, bytes]]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        file = create(path, key)
        written = [NewRecord(number, b"meta" * number, [b"payload" * number]) for number in range(4)]
        file.append(written)
        content = path.read_bytes()
        for share, dropped, inserted in damages:
            at = int(share * len(content))
            content = content[:at] + inserted + content[at + dropped :]
        path.write_bytes(content)
        try:
            _, records = RecordFile.open(Disk(), path, FileKind.TEXT, key)
        except RefusedError:
            return
        found = [(record.kind, record.meta, record.payload_bytes) for record in records]
        whole = [(each.kind, each.meta, each.payload_bytes) for each in written]
        assert found == whole[: len(found)]


class StubbornDisk(Disk):
    """A disk that fails behind a write, and does not even cut the file again."""

    failing = False

    def write(self, stream: FileIO, content: bytes) -> None:
        super().write(stream, content)
        if self.failing:
            raise OSError(errno.EIO, "input/output error")

    def cut(self, stream: FileIO, length: int) -> None:
        if self.failing and os.fstat(stream.fileno()).st_size > length:
            raise OSError(errno.EIO, "input/output error")
        super().cut(stream, length)


def test_what_a_failed_append_leaves_is_overwritten(tmp_path: Path) -> None:
    disk = StubbornDisk()
    file = RecordFile.create(disk, tmp_path / "file", FileStart.new(FileKind.TEXT, {}, None))
    disk.failing = True
    with pytest.raises(OSError, match="input/output error"):
        file.append([NewRecord(1, b"", [b"long" * 100])])
    disk.failing = False
    written = file.append([NewRecord(2, b"", [b"short"])])
    assert RecordFile.open(disk, file.path, FileKind.TEXT, None)[1] == written
