"""Opening a folder reads the headers of its files, however many and however large they are."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

import pytest

from agentrt.runtime.kv.store.disk import Disk
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.disks import FINGERPRINT, chunk


class QuickDisk(Disk):
    """A disk that does not wait for the device."""

    def sync(self, stream: FileIO) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


class _Counting(FileIO):
    read_bytes = 0

    def readinto(self, buffer) -> int:
        read = super().readinto(buffer)
        _Counting.read_bytes += read
        return read


class CountingDisk(Disk):
    """A disk that counts what is read."""

    def open(self, file: Path, flags: int = os.O_RDONLY) -> FileIO:
        return _Counting(file, "rb" if flags == os.O_RDONLY else "r+b")


def test_opening_reads_no_payloads(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT, disk=QuickDisk()) as store:
        for number in range(10):
            context = store.create("notes", str(number))
            for turn in range(3):
                context.append_text(bytes(200_000))
                context.append_chunks([chunk(10 * number + turn, 300_000)])
    _Counting.read_bytes = 0
    with ContextStore(tmp_path, FINGERPRINT, disk=CountingDisk()) as store:
        assert store.statistics().chunks == 30
    assert 0 < _Counting.read_bytes < 20 * 4 * 20_000  # of 15 MB


@pytest.mark.check
@pytest.mark.slow
def test_ten_thousand_contexts(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT, disk=QuickDisk()) as store:
        for number in range(10_000):
            context = store.create(f"app {number % 100}", str(number))
            context.append_text(b"text")
            context.append_chunks([chunk(number % 7), chunk(number)])
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.statistics().contexts == 10_000
        assert store.statistics().chunks == 10_000 + 100 * 7 - 7  # seven are shared in each app
        assert [context.id for context in store.contexts("app 7")] == [
            str(number) for number in range(7, 10_000, 100)
        ]
        for number in range(0, 10_000, 111):
            assert store.get(f"app {number % 100}", str(number)).read_text() == [b"text"]
            location = store.locate(f"app {number % 100}", chunk(number).block_hash)
            assert store.read(location) == chunk(number)
