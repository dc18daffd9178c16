"""Reads from the device, and slower disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrt.bench.context.disk import SlowDisk, drop_page_cache, fast_folder, read_speed


def test_pages_of_all_files_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    for name in ("a", "model/b"):
        (tmp_path / name).write_bytes(bytes(5000))
    if not hasattr(os, "posix_fadvise"):
        assert not drop_page_cache(tmp_path)
        return
    dropped: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: dropped.append(arguments[-1]))
    assert drop_page_cache(tmp_path)
    assert dropped == [os.POSIX_FADV_DONTNEED] * 2


def test_a_file_may_be_renamed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new.unfinished").write_bytes(b"a")
    is_file = Path.is_file

    def renamed_behind(path: Path) -> bool:
        found = is_file(path)
        if found:
            path.rename(path.with_suffix(""))
        return found

    monkeypatch.setattr(Path, "is_file", renamed_behind)
    drop_page_cache(tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "new").is_file()


def test_a_speed_needs_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(bytes(1000))
    assert read_speed(tmp_path) is None
    (tmp_path / "large").write_bytes(bytes(3 * 2**20))
    speed = read_speed(tmp_path)
    assert speed is not None
    assert speed > 0


def test_a_slow_disk_takes_as_long_as_its_bytes(tmp_path: Path) -> None:
    slept: list[float] = []
    slow, file = SlowDisk(1000.0, clock=lambda: 5.0, sleep=slept.append), tmp_path / "file"
    slow.write(file, bytes(500))
    assert slow.read(file, (0, 250)) == bytes(250)
    assert slow.read(file, (250, 600), (0, 600)) == bytes(250)
    assert slept == pytest.approx([0.5, 0.25, 0.25])


def test_a_fast_folder_is_empty_and_goes() -> None:
    with fast_folder() as folder:
        assert list(folder.iterdir()) == []
        (folder / "file").write_bytes(b"a")
    assert not folder.exists()
