"""Files of secrets and settings that only their user can change, and read if they are secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt.own_files import NotAFileError, OwnFileError, make_private_file, read_own_file, replace_own_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions and FIFOs of POSIX")

ME = 1000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch(0o600)
    path.write_text("text ä\n", encoding="utf-8")
    return path


Owned = Callable[[int], None]


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch) -> Owned:
    """Makes a user the owner of all files, and this process not root's."""
    monkeypatch.setattr("os.geteuid", lambda: ME)

    def own(user: int) -> None:
        found = os.fstat

        def fstat(descriptor: int) -> os.stat_result:
            status = list(found(descriptor))
            status[stat.ST_UID] = user
            return os.stat_result(status)

        monkeypatch.setattr("os.fstat", fstat)

    return own


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o604, 0o660, 0o602, 0o644, 0o601, 0o440])
def test_the_modes_of_secrets_and_of_settings(file: Path, owned: Owned, mode: int) -> None:
    owned(ME)
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


@pytest.mark.parametrize(
    ("mode", "usable"),
    [
        *((mode, True) for mode in (0o400, 0o600, 0o440, 0o640)),
        *((mode, False) for mode in (0o444, 0o644, 0o460, 0o660, 0o442, 0o450, 0o441, 0o777)),
    ],
)
@pytest.mark.parametrize("runs_as_root", [False, True])
def test_secrets_that_a_container_mounts(
    file: Path, owned: Owned, monkeypatch: pytest.MonkeyPatch, mode: int, usable: bool, runs_as_root: bool
) -> None:
    owned(0)
    if runs_as_root:
        monkeypatch.setattr("os.geteuid", lambda: 0)
    file.chmod(mode)
    # As Kubernetes has it: the name is a link to a link to the folder of the current version.
    mounted = file.parent / "mounted"
    (file.parent / "..data").symlink_to(".")
    mounted.symlink_to("..data/file")
    if usable:
        assert read_own_file(mounted) == "text ä\n"
        return
    with pytest.raises(OwnFileError, match="chmod 600" if runs_as_root else "Mount it with mode 0440"):
        read_own_file(mounted)


def test_a_file_of_another_user(file: Path, owned: Owned) -> None:
    owned(ME + 1)
    for secret in (True, False):
        with pytest.raises(OwnFileError, match="it belongs to another user"):
            read_own_file(file, secret=secret)


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


def test_a_private_file_is_made_the_users_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o644)
    for path in (file, file.with_name("new")):
        make_private_file(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.with_name("link").symlink_to(file)
    with pytest.raises(NotAFileError, match=r"link is no regular file$"):
        make_private_file(file.with_name("link"))
    monkeypatch.setattr("os.getuid", lambda: ME)
    with pytest.raises(NotAFileError, match="file is no regular file that you own"):
        make_private_file(file)


def test_a_file_is_replaced_whole_or_not_at_all(file: Path) -> None:
    file.chmod(0o644)
    for path in (file, file.parent / "a" / "b" / "new"):
        replace_own_file(path, "other ö\n")
        assert path.read_text(encoding="utf-8") == "other ö\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [each.name for each in path.parent.iterdir() if each.is_file()] == [path.name]
    with pytest.raises(UnicodeEncodeError):
        replace_own_file(file, "lone \udcff")
    assert file.read_text(encoding="utf-8") == "other ö\n"
    assert [each.name for each in file.parent.iterdir() if each.is_file()] == [file.name]
    with pytest.raises(FileExistsError):
        replace_own_file(file / "below", "")
