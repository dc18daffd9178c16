"""Damaged, foreign and missing files: never used, texts never deleted, and no harm to the others.

FIFOs, sockets, folders and devices where a store has files are errors that name them, without waiting.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ChunkDamagedError, ContextDamagedError, ContextNotFoundError, ContextStoreError
from agentrt.runtime.kv.store.folder import KeyFile, check_encrypted_alike
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.stores import FINGERPRINT, chunk, contents, hashes, readable

DATABASE = "contexts.sqlite"


def fill(folder: Path, key: KeyFile | None = None) -> None:
    """Store two contexts that share a chunk, and one of another app."""
    with ContextStore(folder, FINGERPRINT, key=key) as store:
        first, second = store.create("notes", "a", {"title": "x"}), store.create("notes", "b")
        first.append_text(b"one")
        first.append_chunks([chunk(1), chunk(2)])
        first.append_text(b"two")
        first.append_chunks([chunk(3)])
        second.append_text(b"three")
        second.append_chunks([chunk(1), chunk(4)])
        store.create("mail", "a").append_text(b"four")


def refused(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("*.refused-*")}


def texts(store: ContextStore) -> dict[str, dict[str, list[bytes]]]:
    return {app: {id: text for id, (text, _) in found.items()} for app, found in contents(store).items()}


def file_of(store: ContextStore, number: int) -> Path:
    location = store.locate("notes", chunk(number).block_hash)
    assert location is not None
    return store.folder / f"{location.file}.chunks"


def alter(folder: Path, *changes: str) -> None:
    """Change the rows of a store that is closed, which its seals must find."""
    with closing(sqlite3.connect(folder / DATABASE)) as database, database:
        for change in changes:
            database.execute(change)


@pytest.mark.check
@pytest.mark.slow
@pytest.mark.parametrize(("encrypted", "stride"), [(False, 13), (True, 41)])
def test_no_flipped_bit_is_ever_read(tmp_path: Path, encrypted: bool, stride: int) -> None:
    """Each byte of the folder is wrong once; what is read is right or missing, and nothing comes back."""
    key = KeyFile(tmp_path / "key") if encrypted else None
    fill(tmp_path / "whole", key)
    with ContextStore(tmp_path / "whole", FINGERPRINT, key=key) as store:
        expected = contents(store)
    files = [file for file in (tmp_path / "whole").iterdir() if file.name != ".lock"]
    places = [(file, at) for file in files for at in range(file.stat().st_size)]
    # Most of a database's pages is empty: only what is in use and its neighbourhood is damaged.
    used = [(file, at) for file, at in places if any(file.read_bytes()[max(0, at - 8) : at + 8])]
    damaged = 0
    for number, (file, at) in enumerate(used[::stride]):
        folder = tmp_path / "damaged"
        shutil.copytree(tmp_path / "whole", folder)
        content = bytearray(file.read_bytes())
        content[at] ^= 1 << number % 8
        (folder / file.name).write_bytes(content)
        found = _read(folder, key, expected)
        damaged += found != expected
        assert found == _read(folder, key, expected)  # after what was damaged is gone
        shutil.rmtree(folder)
    assert damaged > 20


def _read(folder: Path, key: KeyFile | None, expected: Any) -> Any:
    """Return what is found, all of which must be what was stored."""
    try:
        store = ContextStore(folder, FINGERPRINT, key=key)
    except ContextStoreError as error:  # a bit of its version
        return re.search("another version", str(error))[0]
    found: Any = {app: {} for app in expected}
    with store:
        for app, known in expected.items():
            for context in store.contexts(app):
                try:
                    text = context.read_text()
                except ContextDamagedError:
                    assert store.get(app, context.id) is None
                    continue
                assert text == known[context.id][0]
                found[app][context.id] = text, readable(store, app, context.block_hashes)
                assert found[app][context.id][1] <= known[context.id][1]
    return found


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE turn SET record = CAST('two' AS BLOB) WHERE context = 1 AND place = 1",
        "UPDATE turn SET record = (SELECT record FROM turn WHERE context = 1) WHERE context = 1",
        "DELETE FROM turn WHERE context = 1 AND place = 1",
        "UPDATE turn SET context = 2, place = 1 WHERE context = 1 AND place = 1",
        "UPDATE context SET identity = (SELECT identity FROM context WHERE id = 2) WHERE id = 1",
        "UPDATE context SET state = (SELECT state FROM context WHERE id = 2) WHERE id = 1",
    ],
)
def test_a_text_that_lacks_or_mixes_turns_is_gone_rather_than_wrong(
    tmp_path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    alter(tmp_path, change)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context = store.get("notes", "a")
        if context is not None:
            with pytest.raises(ContextDamagedError, match=r"'a' is damaged.*Create it again"):
                context.read_text()
            with pytest.raises(ContextNotFoundError):
                context.append_text(b"three")
        assert store.get("notes", "a") is None
        assert store.statistics().refused_files == 1
        (aside,) = refused(tmp_path).values()
        assert b"one" in aside
        assert "delete that file" in caplog.text
        assert "context = 2" in change or contents(store)["notes"]["b"] == ([b"three"], {*hashes(1, 4)})
        store.create("notes", "a").append_text(b"again")
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.get("notes", "a").read_text() == [b"again"]


def test_a_damaged_database_is_kept_and_what_can_be_read_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        for number in range(300):
            context = store.create("notes", str(number))
            context.append_text(bytes([number % 256]) * 300)
            context.append_chunks([chunk(number)])
        salt = store.salts.salt_for("notes")
    content = bytearray((tmp_path / DATABASE).read_bytes())
    with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
        query = "SELECT pageno FROM dbstat WHERE name = 'context' AND pagetype = 'leaf' ORDER BY pageno"
        page = database.execute(query).fetchall()[1][0]
    content[4096 * (page - 1) : 4096 * page] = bytes(4096)
    (tmp_path / DATABASE).write_bytes(content)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        found = texts(store)["notes"]
        assert 200 < len(found) < 300
        assert found == {id: [bytes([int(id) % 256]) * 300] for id in found}
        assert store.salts.salt_for("notes") == salt
        assert (store.statistics().chunks, store.statistics().refused_files) == (0, 1)
        assert f"{len(found)} contexts could be read" in caplog.text
        store.create("notes", "new").append_text(b"new")
    ((name, aside),) = refused(tmp_path).items()
    assert (name, aside == content) == (f"{DATABASE}.refused-1", True)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert texts(store)["notes"] == {**found, "new": [b"new"]}
        assert store.statistics().refused_files == 0


def test_a_schema_format_that_sqlite_does_not_know_is_damage(tmp_path: Path) -> None:
    fill(tmp_path)
    content = bytearray((tmp_path / DATABASE).read_bytes())
    content[44:48] = (9).to_bytes(4, "big")
    (tmp_path / DATABASE).write_bytes(content)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.statistics().refused_files == 1


@pytest.mark.parametrize("content", [b"no database " * 100, b"SQLite format 3\0" + bytes(3000)])
def test_what_is_no_database_is_set_aside(tmp_path: Path, content: bytes) -> None:
    fill(tmp_path)
    for number in (1, 2):
        (tmp_path / DATABASE).write_bytes(content)
        with ContextStore(tmp_path, FINGERPRINT) as store:
            assert contents(store) == {"notes": {}, "mail": {}}
        assert len(refused(tmp_path)) == number
    assert [*refused(tmp_path).values()] == [content] * 2


def test_secrets_that_are_damaged_cost_the_kv(tmp_path: Path) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        secret, expected = store.secret, texts(store)
    alter(tmp_path, "UPDATE setting SET value = CAST('x' AS BLOB) WHERE name = 'secrets'")
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert texts(store) == expected
        assert store.secret != secret
        assert store.statistics().chunks == 0


def shorten(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def flip(file: Path, at: int = -1) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("harm", [Path.unlink, shorten, flip])
def test_a_chunk_that_another_program_harms_is_stored_again(
    tmp_path: Path, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        location = store.locate("notes", chunk(3).block_hash)
        harm(file_of(store, 3))
        for _ in range(2):  # the second time by a location that was looked up before
            with pytest.raises(ChunkDamagedError, match="Compute its tokens again"):
                store.read(location)
        assert store.statistics().damaged_chunks == 1
        assert "is damaged or gone, and recomputed" in caplog.text
        context = store.get("notes", "a")
        assert context.refer_to(hashes(1, 2, 3)) == hashes(3)
        assert context.append_chunks([chunk(3), chunk(0)]) == 2
        assert contents(store)["notes"]["a"] == ([b"one", b"two"], {*hashes(0, 1, 2, 3)})
        expected = contents(store)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store) == expected
        assert store.statistics().damaged_chunks == 0


def test_damage_among_chunks_that_are_read_together_is_found_in_its_chunk(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        store.create("notes", "a").append_chunks([chunk(number) for number in range(5)])
        locations = [store.locate("notes", each) for each in hashes(0, 1, 2, 3, 4)]
        flip(file_of(store, 2), locations[2].offset + 3)
        found = store.read_all(locations)
        assert isinstance(found[2], ChunkDamagedError)
        assert found[:2] + found[3:] == [chunk(0), chunk(1), chunk(3), chunk(4)]
        assert (store.statistics().damaged_chunks, store.statistics().chunks) == (1, 4)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.statistics().chunks == 4


@pytest.mark.parametrize("harm", [Path.unlink, shorten])
def test_files_of_chunks_that_are_harmed_between_two_processes(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        file = file_of(store, 3)
    harm(file)
    (tmp_path / ("f" * 32 + ".chunks")).write_bytes(b"of a process that was killed")
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store)["notes"]["a"][1] == {*hashes(1, 2)}
        assert len(list(tmp_path.glob("*.chunks"))) == 2


def test_a_database_that_another_program_takes_away_is_an_error(tmp_path: Path) -> None:
    """Turns that were written to the deleted file would be lost without a word."""
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        (tmp_path / DATABASE).rename(tmp_path / "elsewhere")
        with pytest.raises(ContextStoreError, match="cannot be read or written"):
            store.get("notes", "a").append_text(b"three")
        (tmp_path / "elsewhere").rename(tmp_path / DATABASE)
        store.get("notes", "a").append_text(b"three")


@pytest.mark.parametrize("setting", ["application_id", "user_version"])
def test_a_store_of_another_version_is_left_alone(tmp_path: Path, setting: str) -> None:
    fill(tmp_path)
    alter(tmp_path, f"PRAGMA {setting} = 7")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ContextStoreError, match=r"another version of agentrt.*another folder"):
        ContextStore(tmp_path, FINGERPRINT)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "readme.chunks").write_bytes(b"hello")
    link = tmp_path / ("a" * 32 + ".chunks")
    link.symlink_to(tmp_path / "readme.chunks")
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.statistics().contexts == 3
    assert (tmp_path / "readme.chunks").read_bytes() == b"hello"
    assert link.is_symlink()


POSIX = pytest.mark.skipif(os.name != "posix", reason="FIFOs and sockets of POSIX")


def make_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)  # bound sockets have short paths only


def make_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS = [os.mkfifo, make_socket, Path.mkdir, make_link_to_a_device]


@POSIX
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


@POSIX
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


@POSIX
@pytest.mark.parametrize("make", [os.mkfifo, make_socket, Path.touch])
def test_what_is_no_folder_is_refused_by_its_path(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "contexts")
    for folder in (tmp_path / "contexts", tmp_path / "contexts" / "nano"):
        with pytest.raises(ContextStoreError, match=str(tmp_path / "contexts")):
            ContextStore(folder, FINGERPRINT)


@POSIX
def test_stores_beside_this_one_are_looked_at_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / "contexts.sqlite")
    check_encrypted_alike(tmp_path / "own", None)
