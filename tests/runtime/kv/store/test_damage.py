"""Damaged, foreign and missing files: never used, never deleted, and no harm to the others."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from io import FileIO
from pathlib import Path

import pytest

from agentrt.errors import ChunkDamagedError, ContextDamagedError, ContextNotFoundError, ContextStoreError
from agentrt.runtime.kv.store.disk import Disk
from agentrt.runtime.kv.store.keys import KeyFile
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.disks import FINGERPRINT, chunk, contents

HASHES = [chunk(number).block_hash for number in range(5)]


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


def file_of(store: ContextStore, app: str, id: str, suffix: str) -> Path:
    context = store.get(app, id)
    assert context is not None
    return store._folder / (context.owner.name + suffix)


def refused(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("*.refused-*")}


@pytest.mark.check
@pytest.mark.slow
@pytest.mark.parametrize(("encrypted", "stride"), [(False, 1), (True, 5)])
def test_no_flipped_bit_is_ever_read(tmp_path: Path, encrypted: bool, stride: int) -> None:
    key = KeyFile(tmp_path / "key") if encrypted else None
    whole = tmp_path / "whole"
    fill(whole, key)
    with ContextStore(whole, FINGERPRINT, key=key) as store:
        expected = contents(store)
    places = [(file.name, at) for file in sorted(whole.iterdir()) for at in range(file.stat().st_size)]
    found_damaged = 0
    for number, (name, at) in enumerate(places[::stride]):
        folder = tmp_path / "damaged"
        shutil.copytree(whole, folder)
        damaged = bytearray((folder / name).read_bytes())
        damaged[at] ^= 1 << number % 8
        (folder / name).write_bytes(damaged)
        read_texts = 0
        with ContextStore(folder, FINGERPRINT, key=key) as store:
            for app in expected:
                for context in store.contexts(app):
                    try:
                        text = context.read_text()
                    except ContextDamagedError:
                        assert store.get(app, context.id) is None
                        continue
                    assert text == expected[app][context.id][0]
                    read_texts += 1
            found = contents(store)
            for app, contexts in found.items():
                for id, (_, used) in contexts.items():
                    assert used <= expected[app][id][1]
            lost = sum(len(used) for app in expected.values() for _, used in app.values()) - sum(
                len(used) for app in found.values() for _, used in app.values()
            )
            assert read_texts == 3 - name.endswith(".text")
            assert lost or name.endswith(".text")
            statistics = store.statistics()
            assert statistics.refused_files + statistics.damaged_chunks == 1
            found_damaged += statistics.damaged_chunks
            if statistics.refused_files:
                assert refused(folder) == {f"{name}.refused-1": bytes(damaged)}
        with ContextStore(folder, FINGERPRINT, key=key) as store:  # nothing of it comes back
            assert contents(store) == found
            assert store.statistics().refused_files == store.statistics().damaged_chunks == 0
        shutil.rmtree(folder)
    assert found_damaged > 20  # in payloads, where nothing but the chunk is lost


def test_a_refused_file_is_named_and_replaces_no_earlier_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    for number in (1, 2):
        with ContextStore(tmp_path, FINGERPRINT) as store:
            context = store.get("notes", "a")
            file = file_of(store, "notes", "a", ".chunks")
            context.append_chunks([chunk(1), chunk(2)])
        file.write_bytes(b"no context %d" % number)
        with ContextStore(tmp_path, FINGERPRINT) as store:
            assert store.get("notes", "a").read_text() == [b"one", b"two"]
        assert f"{file.name}.refused-{number}" in caplog.messages[-1]
        assert "is no file of a context, or is damaged" in caplog.messages[-1]
        assert "the text of the context is kept" in caplog.messages[-1]
    assert sorted(refused(tmp_path).values()) == [b"no context 1", b"no context 2"]


def test_a_file_of_another_context_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        first, second = (file_of(store, "notes", id, ".chunks") for id in "ab")
    shutil.copy(first, second)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert "is of another context" in caplog.text
        assert contents(store)["notes"]["a"][1] == {HASHES[1], HASHES[2], HASHES[3]}
        assert contents(store)["notes"]["b"] == ([b"three"], set())


def test_a_copied_text_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        original = file_of(store, "notes", "a", ".text")
        expected = contents(store)
    shutil.copy(original, tmp_path / "copy.text")
    os.utime(tmp_path / "copy.text", ns=(1, 1))
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert "has the id of a context that was used later" in caplog.text
        assert contents(store) == expected
    assert refused(tmp_path).keys() == {"copy.text.refused-1"}


def test_records_of_another_place_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same record twice would be a turn that was never taken."""
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context = store.create("notes", "a")
        file = file_of(store, "notes", "a", ".text")
        start = file.stat().st_size
        context.append_text(b"one")
    record = file.read_bytes()[start:]
    file.write_bytes(file.read_bytes() + record)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.get("notes", "a") is None
    assert "is damaged at byte" in caplog.text


def test_records_that_changed_places_are_refused(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context = store.create("notes", "a")
        context.append_text(b"one")
        context.append_text(b"two")
        file = file_of(store, "notes", "a", ".text")
        content = file.read_bytes()
        first, second = (content[at : at + 7] for at in (content.index(b"one"), content.index(b"two")))
        file.write_bytes(content.replace(first, b"x" * 7).replace(second, first).replace(b"x" * 7, second))
        with pytest.raises(ContextDamagedError, match="is damaged"):
            context.read_text()


def test_a_text_that_is_damaged_while_it_is_open_is_removed(tmp_path: Path) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context, file = store.get("notes", "a"), file_of(store, "notes", "a", ".text")
        damaged = file.read_bytes().replace(b"two", b"owt")
        file.write_bytes(damaged)
        with pytest.raises(ContextDamagedError, match=r"its file is damaged.*Create it again"):
            context.read_text()
        with pytest.raises(ContextNotFoundError):
            context.append_text(b"three")
        assert refused(tmp_path) == {f"{file.name}.refused-1": damaged}
        # What another context shared with it is inherited.
        assert contents(store)["notes"] == {"b": ([b"three"], {HASHES[1], HASHES[4]})}
        store.create("notes", "a").append_text(b"again")
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store)["notes"]["a"] == ([b"again"], set())


@pytest.mark.parametrize("how", ["deleted", "shortened"])
@pytest.mark.parametrize("use", ["read", "append"])
def test_a_text_that_another_program_takes_away(
    tmp_path: Path, how: str, use: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context, file = store.get("notes", "a"), file_of(store, "notes", "a", ".text")
        if how == "deleted":
            file.unlink()
        else:
            os.truncate(file, file.stat().st_size - 1)
        with pytest.raises(ContextDamagedError):
            context.read_text() if use == "read" else context.append_text(b"three")
        assert store.get("notes", "a") is None
        assert ("is gone" if how == "deleted" else "has lost its end") in caplog.text
        assert contents(store)["notes"] == {"b": ([b"three"], {HASHES[1], HASHES[4]})}
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store)["notes"] == {"b": ([b"three"], {HASHES[1], HASHES[4]})}


@pytest.mark.parametrize("how", ["deleted", "shortened"])
@pytest.mark.parametrize("use", ["read", "append"])
def test_chunks_that_another_program_takes_away(tmp_path: Path, how: str, use: str) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context, file = store.get("notes", "a"), file_of(store, "notes", "a", ".chunks")
        location = store.locate("notes", HASHES[3])
        if how == "deleted":
            file.unlink()
        else:
            os.truncate(file, file.stat().st_size - 1)
        if use == "read":
            with pytest.raises(ChunkDamagedError, match="Compute its tokens again"):
                store.read(location)
            assert store.locate("notes", HASHES[1]) is None
        assert context.append_chunks([chunk(0)]) == 1
        assert context.refer_to(HASHES) == [HASHES[1], HASHES[2], HASHES[3]]
        assert context.append_chunks([chunk(number) for number in range(5)]) == 5
        assert contents(store)["notes"] == {
            "a": ([b"one", b"two"], set(HASHES)),
            "b": ([b"three"], {HASHES[1], HASHES[4]}),
        }
        expected = contents(store)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store) == expected


def test_a_damaged_chunk_is_stored_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        file, location = file_of(store, "notes", "a", ".chunks"), store.locate("notes", HASHES[1])
        content = bytearray(file.read_bytes())
        content[location.offset] ^= 1
        file.write_bytes(content)
        with pytest.raises(ChunkDamagedError):
            store.read(location)
        with pytest.raises(ChunkDamagedError):  # a location that was looked up before
            store.read(location)
        assert store.statistics().damaged_chunks == 1
        assert store.get("notes", "b").refer_to([HASHES[1]]) == [HASHES[1]]
        assert store.get("notes", "b").append_chunks([chunk(1)]) == 1
        assert store.read(store.locate("notes", HASHES[1])) == chunk(1)
        assert "is damaged and recomputed" in caplog.text
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.read(store.locate("notes", HASHES[1])) == chunk(1)
        assert store.statistics().refused_files == 0


def test_damage_in_a_run_of_chunks_is_found_in_its_chunk(tmp_path: Path) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        store.get("notes", "a").append_chunks([chunk(0)])
        locations = [store.locate("notes", HASHES[number]) for number in (0, 1, 2, 3, 4)]
        file = file_of(store, "notes", "a", ".chunks")
        content = bytearray(file.read_bytes())
        content[locations[2].offset + 3] ^= 4
        file.write_bytes(content)
        found = store.read_all(locations)
        assert isinstance(found[2], ChunkDamagedError)
        assert found[:2] + found[3:] == [chunk(0), chunk(1), chunk(3), chunk(4)]
        assert (store.statistics().damaged_chunks, store.statistics().chunks) == (1, 4)
        file.unlink()
        found = store.read_all(locations)
        assert [isinstance(each, ChunkDamagedError) for each in found] == [True] * 4 + [False]


class UnreadableDisk(Disk):
    """A disk with files that cannot be read."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def open(self, file: Path, flags: int = os.O_RDONLY) -> FileIO:
        if file.name in self._names:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(file))
        return super().open(file, flags)


def test_files_that_cannot_be_read_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        expected = contents(store)
        text, chunks = (
            file_of(store, "notes", "a", ".text").name,
            file_of(store, "notes", "b", ".chunks").name,
        )
    with ContextStore(tmp_path, FINGERPRINT, disk=UnreadableDisk(text, chunks)) as store:
        assert contents(store)["notes"] == {"b": ([b"three"], set())}
        assert contents(store)["mail"] == expected["mail"]
        assert "Its context is not there until it can be" in caplog.text
        assert "Its KV is recomputed" in caplog.text
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store) == expected
        assert store.statistics().refused_files == 0


def test_a_text_that_cannot_be_read_for_a_moment_is_kept(tmp_path: Path) -> None:
    fill(tmp_path)
    disk = UnreadableDisk()
    with ContextStore(tmp_path, FINGERPRINT, disk=disk) as store:
        context = store.get("notes", "a")
        disk._names = (file_of(store, "notes", "a", ".text").name,)
        with pytest.raises(ContextStoreError, match="Input/output error"):
            context.read_text()
        disk._names = ()
        assert context.read_text() == [b"one", b"two"]


def test_chunks_without_a_text_are_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        text, chunks = (file_of(store, "notes", "a", suffix) for suffix in (".text", ".chunks"))
    text.unlink()
    with caplog.at_level(logging.INFO), ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store)["notes"] == {"b": ([b"three"], {HASHES[4]})}
    assert not chunks.exists()
    assert "its text is gone" in caplog.text


def test_an_end_of_zeros_is_cut_off(tmp_path: Path) -> None:
    """As some file systems leave it after a power failure."""
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        expected = contents(store)
    for file in tmp_path.glob("*.*"):
        if file.suffix in (".text", ".chunks"):
            file.write_bytes(file.read_bytes() + bytes(2_000_000))
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store) == expected
        assert store.statistics().refused_files == 0
        assert store.statistics().text_bytes < 2_000_000


def test_a_store_of_another_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("agentrt.runtime.kv.store.record_format._VERSION", 2)
        fill(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ContextStoreError, match=r"version 2 of the format, not 1.*another folder"):
        ContextStore(tmp_path, FINGERPRINT)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "readme").write_bytes(b"hello")
    (tmp_path / "link.text").symlink_to(tmp_path / "readme")
    fill(tmp_path)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.statistics().contexts == 3
        assert store.statistics().refused_files == 0
    assert (tmp_path / "readme").read_bytes() == b"hello"
    assert (tmp_path / "link.text").is_symlink()


def test_a_folder_whose_secret_is_gone_keeps_its_texts(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "store").unlink()
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert {
            app: {id: text for id, (text, _) in found.items()} for app, found in contents(store).items()
        } == {
            "notes": {"a": [b"one", b"two"], "b": [b"three"]},
            "mail": {"a": [b"four"]},
        }
        assert store.statistics().chunks == 0
        assert store.statistics().foreign_chunks == 4
        assert store.get("notes", "a").append_chunks([chunk(1)]) == 1
        assert store.statistics().foreign_chunks == 1
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store)["notes"]["a"] == ([b"one", b"two"], {HASHES[1]})
