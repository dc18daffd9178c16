"""Deleting everything of an app: nothing of it is left, and all of the others is."""

from __future__ import annotations

from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import ContextNotFoundError, ContextStoreError
from agentrt.runtime.kv.store.disk import Disk
from agentrt.runtime.kv.store.keys import KeyFile
from agentrt.runtime.kv.store.store import ContextStore
from tests.hypothesis_profiles import examples
from tests.runtime.kv.store.disks import (
    FINGERPRINT,
    Contents,
    CrashError,
    FaultyDisk,
    FullDisk,
    KilledDisk,
    chunk,
    contents,
)

APPS = ("notes", "mail", "")

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(APPS),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["text", "chunks", "refer"]),
        st.lists(st.integers(0, 5), max_size=3),  # the same hashes in all apps
    ),
    max_size=15,
)


def change(store: ContextStore, app: str, id: str, kind: str, numbers: list[int]) -> None:
    context = store.get(app, id) or store.create(app, id, {"kind": "prefix"} if id == "c" else {})
    if kind == "text":
        context.append_text(bytes(numbers))
    elif kind == "chunks":
        context.append_chunks([chunk(number) for number in numbers])
    else:
        context.refer_to([chunk(number).block_hash for number in numbers])


def of_others(found: Contents, app: str) -> Contents:
    return {each: kept for each, kept in found.items() if each != app}


def salts(store: ContextStore) -> dict[str, bytes]:
    return {app: store.salts.salt_for(app) for app in APPS}


@pytest.mark.hypothesis
@given(changes=CHANGES, app=st.sampled_from(APPS), later=CHANGES, encrypted=st.booleans())
@examples(60)
def test_one_app_loses_everything_and_the_others_nothing(
    tmp_path_factory: pytest.TempPathFactory, changes: Any, app: str, later: Any, encrypted: bool
) -> None:
    folder = tmp_path_factory.mktemp("contexts")
    key = KeyFile(folder.with_name(f"{folder.name}-key")) if encrypted else None
    with ContextStore(folder, FINGERPRINT, key=key) as store:
        for each in changes:
            change(store, *each)
        before, salted = contents(store, APPS), salts(store)
        store.delete_all(app)
        expected = of_others(before, app) | {app: {}}
        assert contents(store, APPS) == expected
        assert all(store.locate(app, chunk(number).block_hash) is None for number in range(6))
        files = {path.name.partition(".")[0] for path in folder.iterdir() if path.suffix}
        assert files - {""} == {each.owner.name for name in APPS for each in store.contexts(name)}
        renewed = salts(store)
        assert [name for name in APPS if renewed[name] != salted[name]] == [app]
        with pytest.raises(ContextNotFoundError):
            store.create(app, "late", salt=salted[app])  # of a request that began before
        for each in later:
            change(store, *each)
        after = contents(store, APPS)
    with ContextStore(folder, FINGERPRINT, key=key) as store:
        assert contents(store, APPS) == after
        assert salts(store) == renewed
        store.create(app, "new", salt=renewed[app])
        assert store.statistics().refused_files == 0


def filled(folder: Path, disk: Any = None) -> ContextStore:
    store = ContextStore(folder, FINGERPRINT, disk=disk)
    for app in ("notes", "mail"):
        for id, numbers in (("a", [1, 2]), ("b", [2, 3])):
            change(store, app, id, "text", [])
            change(store, app, id, "chunks", numbers)
    return store


class WatchedDisk(Disk):
    """Notes the names of the files that are written."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, stream: FileIO, content: bytes) -> None:
        self.written.append(Path(str(stream.name)).name)
        super().write(stream, content)


def test_nothing_is_inherited(tmp_path: Path) -> None:
    disk = WatchedDisk()
    with filled(tmp_path, disk) as store:
        disk.written.clear()
        store.delete_all("notes")
    assert disk.written == ["store.unfinished"], "the file with the salts"


def test_a_crash_at_any_step_leaves_the_other_apps_as_they_were(tmp_path: Path) -> None:
    for fail_at in count():
        folder = tmp_path / str(fail_at)
        with filled(folder) as store:
            before = contents(store)
        try:
            with ContextStore(folder, FINGERPRINT, disk=KilledDisk(fail_at)) as store:
                store.delete_all("notes")
            break
        except CrashError:
            pass
        with ContextStore(folder, FINGERPRINT) as store:
            found = contents(store)
            assert found["mail"] == before["mail"]
            assert {id: text for id, (text, _) in found["notes"].items()}.items() <= {
                id: text for id, (text, _) in before["notes"].items()
            }.items()
            store.delete_all("notes")
            assert contents(store) == {"notes": {}, "mail": before["mail"]}
    assert fail_at > 5


def test_what_cannot_be_deleted_is_still_there(tmp_path: Path) -> None:
    filled(tmp_path).close()
    for fail_at in count():
        disk = FaultyDisk(fail_at, lambda: OSError(5, "Input/output error"))
        try:
            store = ContextStore(tmp_path, FINGERPRINT, disk=disk)
        except ContextStoreError:
            continue
        with store:
            before = salts(store)
            try:
                store.delete_all("notes")
                break
            except ContextStoreError:
                assert salts(store)["notes"] != before["notes"], "what is left is not found any more"
                assert set(contents(store)["mail"]) == {"a", "b"}
                left = set(contents(store)["notes"])
        with ContextStore(tmp_path, FINGERPRINT) as store:
            assert set(contents(store)["notes"]) == left
            for id in {"a", "b"} - left:
                change(store, "notes", id, "text", [])
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store)["notes"] == {}


def test_on_a_full_disk(tmp_path: Path) -> None:
    disk = FullDisk(10**6)
    with filled(tmp_path, disk) as store:
        disk.left = 0
        store.delete_all("notes")
        assert contents(store)["notes"] == {}
        assert set(contents(store)["mail"]) == {"a", "b"}
