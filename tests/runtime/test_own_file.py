"""Files of secrets and settings that only their user can change, and read if they are secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrt.runtime.own_file import OwnFileError, read_own_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions and FIFOs of POSIX")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch(0o600)
    path.write_text("text ä\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o604, 0o660, 0o602, 0o644, 0o601])
def test_the_modes_of_secrets_and_of_settings(file: Path, mode: int) -> None:
    file.chmod(mode)
    if mode & 0o077:
        with pytest.raises(OwnFileError, match=f"other users may read it. Run: chmod 600 {file}$"):
            read_own_file(file)
    else:
        assert read_own_file(file) == "text ä\n"
    if mode & 0o022:
        with pytest.raises(OwnFileError, match=f"other users may change it. Run: chmod go-w {file}$"):
            read_own_file(file, secret=False)
    else:
        assert read_own_file(file, secret=False) == "text ä\n"


def test_a_file_of_another_user(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = file.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    with pytest.raises(OwnFileError, match="it belongs to another user"):
        read_own_file(file)
    if owner == 0:
        assert read_own_file(file, secret=False)
    else:
        with pytest.raises(OwnFileError, match="it belongs to another user"):
            read_own_file(file, secret=False)


def test_what_is_no_text_file(tmp_path: Path, file: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "link").symlink_to(file)
    for name, content in {"binary": b"ab\xff", "large": b"x" * (2**20 + 1), "largest": b"x" * 2**20}.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_bytes(content)
    for path, problem in {
        tmp_path: "no regular file",
        tmp_path / "fifo": "no regular file",
        tmp_path / "endless": "no regular file",
        tmp_path / "nowhere": "there is no such file. Create it",
        tmp_path / "dangling": "a link to a file that is not there",
        tmp_path / "binary": "not UTF-8 at byte 2",
        tmp_path / "large": "more than 1048576 bytes",
        file / "below": "Not a directory",
        tmp_path / "a\0b": "null",
    }.items():
        with pytest.raises(OwnFileError, match=problem):
            read_own_file(path)
    assert read_own_file(tmp_path / "link") == "text ä\n"
    assert len(read_own_file(tmp_path / "largest")) == 2**20
