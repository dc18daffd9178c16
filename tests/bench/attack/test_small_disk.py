"""A folder in which little can be written, whether or not this user may mount a disk."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentrt.bench.attack.small_disk import SmallDisk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits files as Linux does")

WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(bytes(60_000))"


def written(disk: SmallDisk) -> bool:
    command = [*disk.prefix, sys.executable, "-c", WRITE, str(disk.folder / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "OSError" in done.stderr
    return done.returncode == 0


def test_a_disk_is_full_until_it_is_freed(tmp_path: Path) -> None:
    with SmallDisk(tmp_path) as disk:
        if disk.prefix:
            pytest.skip("this user may not mount a disk")
        disk.fill()
        assert not written(disk)
        assert disk.free()
        assert written(disk)
    assert list(tmp_path.iterdir()) == []


def test_files_are_small_where_no_disk_can_be_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with SmallDisk(tmp_path) as disk:
        disk.fill()
        assert not written(disk)
        assert not disk.free()
