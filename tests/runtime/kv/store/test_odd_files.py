"""FIFOs, sockets, folders and devices where a store has files: an error that names them, and no waiting."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt.errors import ChunkDamagedError, ContextStoreError
from agentrt.runtime.kv.store.folder import check_encrypted_alike
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.stores import FINGERPRINT, chunk, contents

pytestmark = pytest.mark.skipif(os.name != "posix", reason="FIFOs and sockets of POSIX")


def make_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)  # bound sockets have short paths only


def make_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS = [os.mkfifo, make_socket, Path.mkdir, make_link_to_a_device]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", [".lock", "contexts.sqlite"])
def test_what_is_no_file_is_refused_by_its_path(
    tmp_path: Path, make: Callable[[Path], None], name: str
) -> None:
    odd = tmp_path / name
    make(odd)
    with pytest.raises(ContextStoreError, match=f"{odd} is no regular file.* Move it away"):
        ContextStore(tmp_path, FINGERPRINT)
    assert os.path.lexists(odd)
    odd.rmdir() if odd.is_dir() else odd.unlink()
    with ContextStore(tmp_path, FINGERPRINT) as store:
        store.create("notes", "a").append_text(b"one")


@pytest.mark.parametrize("make", KINDS)
def test_chunks_whose_file_was_replaced_are_not_there(tmp_path: Path, make: Callable[[Path], None]) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context = store.create("notes", "a")
        context.append_text(b"a")
        context.append_chunks([chunk(1)])
        location = store.locate("notes", chunk(1).block_hash)
        (file,) = tmp_path.glob("*.chunks")
        file.unlink()
        make(file)
        with pytest.raises(ChunkDamagedError):
            store.read(location)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store)["notes"] == {"a": ([b"a"], set())}


@pytest.mark.parametrize("make", [os.mkfifo, make_socket, Path.touch])
def test_what_is_no_folder_is_refused_by_its_path(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "contexts")
    for folder in (tmp_path / "contexts", tmp_path / "contexts" / "nano"):
        with pytest.raises(ContextStoreError, match=str(tmp_path / "contexts")):
            ContextStore(folder, FINGERPRINT)


def test_stores_beside_this_one_are_looked_at_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / "contexts.sqlite")
    check_encrypted_alike(tmp_path / "own", None)
