"""Limits of bytes and a full disk: KV goes before text, and nothing stored is harmed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import ContextQuotaError, ContextStoreError
from agentrt.runtime.kv.store.store import ContextStore
from tests.hypothesis_profiles import examples
from tests.runtime.kv.store.stores import FINGERPRINT, FullDisk, chunk, contents

SIZE = 1000


def hashes_of(store: ContextStore, id: str, app: str = "notes") -> list[int]:
    """Return the numbers of the chunks that the context uses and that are stored."""
    used = store.get(app, id).block_hashes
    return [int.from_bytes(each, "big") for each in used if store.locate(app, each) is not None]


def big(*numbers: int) -> list:
    return [chunk(number, SIZE) for number in numbers]


operations = st.lists(
    st.tuples(
        st.sampled_from(["create", "text", "replace", "chunks", "refer", "touch", "delete", "reopen"]),
        st.sampled_from(["notes", "mail"]),
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.integers(0, 9), max_size=5),
    ),
    max_size=30,
)


@examples(60)
@given(operations, st.integers(0, 12_000), st.integers(0, 20_000))
def test_no_limit_is_exceeded_but_by_text_and_no_text_is_lost(
    operations: list, bytes_per_app: int, disk_bytes: int
) -> None:
    quotas = {"context_app_bytes": bytes_per_app, "context_disk_bytes": disk_bytes}
    expected: dict[str, dict[str, tuple[list[bytes], set[int]]]] = {"notes": {}, "mail": {}}
    folder = Path(tempfile.mkdtemp())
    store = ContextStore(folder, FINGERPRINT, quotas=quotas)
    try:
        for kind, app, id, numbers in operations:
            context = store.get(app, id)
            text = bytes(numbers) * 50
            if kind == "create" and context is None:
                try:
                    store.create(app, id)
                except ContextQuotaError:
                    assert min(bytes_per_app, disk_bytes) < 6000
                else:
                    expected[app][id] = ([], set())
            elif kind == "reopen":
                store.close()
                store = ContextStore(folder, FINGERPRINT, quotas=quotas)
            elif context is not None:
                texts, used = expected[app][id]
                if kind == "text":
                    context.append_text(text)
                    texts.append(text)
                elif kind == "replace":
                    context.replace_text([text])
                    texts[:] = [text]
                elif kind == "chunks":
                    stored = context.append_chunks(big(*numbers))
                    assert all(store.locate(app, each.block_hash) for each in big(*numbers[:stored]))
                    used.update(numbers)
                elif kind == "refer":
                    context.refer_to([each.block_hash for each in big(*numbers)])
                    used.update(numbers)
                elif kind == "touch":
                    context.touch()
                elif kind == "delete":
                    store.delete(app, id)
                    del expected[app][id]
            found = contents(store)
            for each in expected:
                assert {id: text for id, (text, _) in found[each].items()} == {
                    id: text for id, (text, _) in expected[each].items()
                }
                for id in expected[each]:
                    assert {*hashes_of(store, id, each)} <= expected[each][id][1]
            statistics = store.statistics()
            assert statistics.refused_files == statistics.damaged_chunks == 0
            if statistics.chunk_bytes:
                assert statistics.text_bytes + statistics.chunk_bytes <= disk_bytes
            for each in expected:
                if chunk_bytes := store._usage.chunk_bytes[each]:
                    assert store._usage.text_bytes[each] + chunk_bytes <= bytes_per_app
    finally:
        store.close()
        shutil.rmtree(folder)


def test_kv_of_the_context_used_longest_ago_goes_first(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT, quotas={"context_app_bytes": 4 * SIZE}) as store:
        for number, id in enumerate("abc"):
            store.create("notes", id).append_chunks(big(number))
        store.create("mail", "a").append_chunks(big(0))
        store.get("notes", "a").touch()
        assert store.get("notes", "c").append_chunks(big(8)) == 1
        assert [hashes_of(store, id) for id in "abc"] == [[0], [], [2, 8]]
        assert hashes_of(store, "a", "mail") == [0]  # another app has a limit of its own
        assert store.statistics().dropped_chunks == 1


def test_the_order_of_use_survives_a_restart_and_a_clock_that_goes_backwards(tmp_path: Path) -> None:
    now = 10**18
    clock = iter(range(now, 0, -(10**15)))
    with ContextStore(tmp_path, FINGERPRINT, clock=lambda: next(clock)) as store:
        for number, id in enumerate("bcad"):
            context = store.create("notes", id)
            context.append_text(b"text")
            context.append_chunks(big(number))
    with ContextStore(tmp_path, FINGERPRINT, clock=lambda: 0) as store:
        assert [context.id for context in store.contexts("notes")] == [*"bcad"]
        store.get("notes", "b").append_text(b"more")
    quotas = {"context_disk_bytes": 3 * SIZE}
    with ContextStore(tmp_path, FINGERPRINT, clock=lambda: 0, quotas=quotas) as store:
        assert [context.id for context in store.contexts("notes")] == [*"cadb"]
        assert [hashes_of(store, id) for id in "cadb"] == [[], [], [3], [0]]  # a smaller limit than before


def test_a_use_that_writes_nothing_survives_a_restart_and_one_of_known_chunks_a_crash(tmp_path: Path) -> None:
    with ContextStore(tmp_path / "one", FINGERPRINT) as store:
        for id in "abc":
            store.create("notes", id).append_chunks([chunk(1)])
        assert store.get("notes", "a").refer_to([chunk(1).block_hash]) == []
        shutil.copytree(tmp_path / "one", tmp_path / "two")  # what is there without a close
        store.get("notes", "b").touch()
        used = store.get("notes", "b").used
    with ContextStore(tmp_path / "two", FINGERPRINT) as crashed:
        assert [each.id for each in crashed.contexts("notes")] == ["b", "c", "a"]
    with ContextStore(tmp_path / "one", FINGERPRINT) as store:
        assert [each.id for each in store.contexts("notes")] == ["c", "a", "b"]
        assert store.get("notes", "b").used == used


def test_what_does_not_fit_is_not_stored(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT, quotas={"context_app_bytes": 4 * SIZE}) as store:
        context = store.create("notes", "a")
        assert context.append_chunks(big(*range(9))) == 3
        assert hashes_of(store, "a") == [0, 1, 2]
        assert context.append_chunks(big(0, 3, 1)) == 1  # the second does not fit
        context.append_text(bytes(2 * SIZE))  # text does: the KV goes
        assert hashes_of(store, "a") == []
        context.append_text(bytes(9 * SIZE))
        with pytest.raises(ContextQuotaError, match=r"context_app_bytes=4000 is reached\. Delete contexts"):
            store.create("notes", "b")
        store.delete("notes", "a")
        store.create("notes", "b")


def test_texts_beyond_one_limit_do_not_suspend_the_other(tmp_path: Path) -> None:
    quotas = {"context_app_bytes": 2 * SIZE, "context_disk_bytes": 4 * SIZE}
    with ContextStore(tmp_path, FINGERPRINT, quotas=quotas) as store:
        store.create("mail", "a").append_chunks(big(1))
        context = store.create("notes", "a")
        context.append_text(bytes(2 * SIZE))
        assert hashes_of(store, "a", "mail") == [1]
        context.append_text(bytes(2 * SIZE))
        assert hashes_of(store, "a", "mail") == []


def test_a_shared_prefix_outlives_the_context_that_has_stored_it(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        store.create("notes", "a").append_chunks(big(1, 2))
        for id in "bc":
            store.create("notes", id).refer_to([each.block_hash for each in big(1)])
        store.delete("notes", "a")
        assert [hashes_of(store, id) for id in "bc"] == [[1], [1]]
        (file,) = tmp_path.glob("*.chunks")
        assert big(1)[0].payload in file.read_bytes()
        assert big(2)[0].payload not in file.read_bytes(), "what the others do not use is erased"
        store.delete("notes", "c")
        assert store.read(store.locate("notes", chunk(1).block_hash)) == chunk(1, SIZE)
        store.delete("notes", "b")
        assert store.statistics().chunk_bytes == 0
    assert not list(tmp_path.glob("*.chunks"))


@contextmanager
def full(store: ContextStore, is_full: Callable[[], bool]) -> Iterator[None]:
    """Let the database of a store grow no more while the disk is full."""
    database = store._database
    change = database.change

    @contextmanager
    def limited(**options: bool) -> Iterator[sqlite3.Connection]:
        # SQLite's own limit on the size of the file: it fails as on a full disk.
        pages = database.execute("PRAGMA page_count")[0][0]
        database.execute(f"PRAGMA max_page_count = {pages if is_full() else 2**30}")
        with change(**options) as connection:
            yield connection

    database.change = limited
    yield
    del database.change
    database.execute("PRAGMA max_page_count = 1073741823")


@given(st.integers(0, 9000))
@examples(60)
def test_a_full_disk_harms_nothing_that_was_stored(left: int) -> None:
    folder = Path(tempfile.mkdtemp())
    disk = FullDisk(left)
    texts: dict[str, list[bytes]] = {}
    try:
        with ContextStore(folder, FINGERPRINT, disk=disk) as store:
            with full(store, lambda: disk.left < SIZE):
                for number in range(8):
                    id = "ab"[number % 2]
                    try:
                        if id not in texts:
                            store.create("notes", id)
                            texts[id] = []
                        store.get("notes", id).append_text(b"text" * 1000)
                        texts[id].append(b"text" * 1000)
                        store.get("notes", id).append_chunks(big(0, number))
                    except ContextStoreError:
                        assert disk.left < 3 * SIZE
                    assert {id: text for id, (text, _) in contents(store)["notes"].items()} == texts
            expected = contents(store)
        with ContextStore(folder, FINGERPRINT) as store:
            assert contents(store) == expected
            assert store.statistics().refused_files == store.statistics().damaged_chunks == 0
    finally:
        shutil.rmtree(folder)


def test_on_a_full_disk_kv_gives_way_to_text(tmp_path: Path) -> None:
    disk = FullDisk(10**6)
    with ContextStore(tmp_path, FINGERPRINT, disk=disk) as store:
        for number, id in enumerate("abc"):
            store.create("notes", id).append_chunks(big(number))
        with full(store, lambda: disk.left < 2 * SIZE):
            disk.left = 0
            with pytest.raises(ContextStoreError, match="free disk space"):
                store.get("notes", "c").append_chunks(big(7))
            assert [hashes_of(store, id) for id in "abc"] == [[0], [1], [2]]  # KV does not drive out KV here
            store.get("notes", "c").append_text(b"text" * 5000)
            assert [hashes_of(store, id) for id in "abc"] == [[], [], [2]]
            disk.left = 0
            store.delete("notes", "b")  # needs no space
            with pytest.raises(ContextStoreError, match="free disk space"):
                store.create("notes", "e", {"title": "x" * 9000})
            assert [context.id for context in store.contexts("notes")] == [*"ac"]
        expected = contents(store)
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store) == expected


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ContextStoreError, match="use another folder"):
        ContextStore(tmp_path / "file" / "contexts", FINGERPRINT)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    ContextStore(tmp_path / "contexts", FINGERPRINT).close()
    (tmp_path / "contexts").chmod(0o500)
    with pytest.raises(ContextStoreError, match="Make the folder writable"):
        ContextStore(tmp_path / "contexts", FINGERPRINT)
