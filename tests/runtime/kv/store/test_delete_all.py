"""Deleting everything of an app: nothing of it is left, and all of the others is."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import ContextNotFoundError, ContextStoreError
from agentrt.runtime.kv.store.folder import KeyFile
from agentrt.runtime.kv.store.store import ContextStore
from tests.hypothesis_profiles import examples
from tests.runtime.kv.store.stores import FINGERPRINT, Contents, FaultyDisk, chunk, contents, hashes

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
        context.refer_to(hashes(*numbers))


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
        expected: Contents = before | {app: {}}
        assert contents(store, APPS) == expected
        assert all(store.locate(app, each) is None for each in hashes(*range(6)))
        found = {store.locate(name, each) for name in APPS for each in hashes(*range(6))} - {None}
        assert {path.stem for path in folder.glob("*.chunks")} == {location.file for location in found}
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


def test_nothing_of_a_deleted_text_is_left_in_the_folder(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        for app in ("notes", "mail"):
            context = store.create(app, f"thread of {app}", {"title": f"title of {app}"})
            context.append_text(f"text of {app}".encode())
            context.append_text(f"long text of {app}".encode() * 1000)
            context.append_chunks([chunk(7, 64)])
        store.get("mail", "thread of mail").replace_text([b"another text"])
        assert b"text of mail" not in everything(tmp_path)
        store.delete_all("notes")
        for words in (b"thread of notes", b"title of notes", b"text of notes"):
            assert words not in everything(tmp_path)
        assert b"title of mail" in everything(tmp_path)


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def test_what_cannot_be_deleted_is_still_there_and_its_chunks_are_not_found(tmp_path: Path) -> None:
    for fail_at in count():
        folder = tmp_path / str(fail_at)
        with ContextStore(folder, FINGERPRINT) as store:
            for app in ("notes", "mail"):
                for id, numbers in (("a", [1, 2]), ("b", [2, 3])):
                    change(store, app, id, "text", [])
                    change(store, app, id, "chunks", numbers)
            before = contents(store)
        disk = FaultyDisk(fail_at, lambda: OSError(5, "Input/output error"))
        with ContextStore(folder, FINGERPRINT, disk=disk) as store:
            salted = salts(store)
            try:
                store.delete_all("notes")
                break
            except ContextStoreError:
                assert salts(store)["notes"] != salted["notes"], "what is left is not found any more"
                assert contents(store) == before | {"notes": {"a": ([b""], set()), "b": ([b""], set())}}
        with ContextStore(folder, FINGERPRINT) as store:
            store.delete_all("notes")
            assert contents(store) == before | {"notes": {}}
            assert len(list(folder.glob("*.chunks"))) == 2
    assert fail_at == 2
    with ContextStore(folder, FINGERPRINT) as store:
        assert contents(store) == before | {"notes": {}}
