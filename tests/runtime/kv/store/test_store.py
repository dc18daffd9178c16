"""Any sequence of changes and restarts leaves what a dictionary would hold."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentrt.errors import ChunkDamagedError, ContextNotFoundError, InvalidRequestError, RuntimeClosedError
from agentrt.private_database import PrivateDatabase
from agentrt.runtime.kv.store.chunk_files import Disk, Extent
from agentrt.runtime.kv.store.folder import KeyFile
from agentrt.runtime.kv.store.store import ContextStore
from tests.hypothesis_profiles import examples
from tests.runtime.kv.store.stores import FINGERPRINT, Contents, chunk, contents

apps = st.sampled_from(["notes", "mail"])
ids = st.sampled_from(["a", "b", "Über/..", "\ud800"])
numbers = st.lists(st.integers(0, 9), max_size=6)


class StoreMachine(RuleBasedStateMachine):
    """A store without quotas beside a dictionary."""

    encrypted = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.expected: Contents = {"notes": {}, "mail": {}}
        self.store = self.opened()

    def opened(self) -> ContextStore:
        key = KeyFile(self.folder / "key") if self.encrypted else None
        return ContextStore(self.folder / "contexts", FINGERPRINT, key=key)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(app=apps, id=ids)
    def create(self, app: str, id: str) -> None:
        if id in self.expected[app]:
            with pytest.raises(InvalidRequestError, match="there is such a context"):
                self.store.create(app, id)
        else:
            assert self.store.create(app, id, {"title": id}).header == {"title": id}
            self.expected[app][id] = ([], set())

    @rule(app=apps, id=ids, text=st.binary(max_size=40))
    def append_text(self, app: str, id: str, text: bytes) -> None:
        if id in self.expected[app]:
            self.existing(app, id).append_text(text)
            self.expected[app][id][0].append(text)

    @rule(app=apps, id=ids, texts=st.lists(st.binary(max_size=5), max_size=3))
    def replace_text(self, app: str, id: str, texts: list[bytes]) -> None:
        if id in self.expected[app]:
            self.existing(app, id).replace_text(texts)
            self.expected[app][id][0][:] = texts

    @rule(app=apps, id=ids, numbers=numbers)
    def append_chunks(self, app: str, id: str, numbers: list[int]) -> None:
        if id in self.expected[app]:
            chunks = [chunk(number) for number in numbers]
            assert self.existing(app, id).append_chunks(chunks) == len(chunks)
            self.expected[app][id][1].update(each.block_hash for each in chunks)

    @rule(app=apps, id=ids, numbers=numbers)
    def refer_to(self, app: str, id: str, numbers: list[int]) -> None:
        if id in self.expected[app]:
            hashes = [chunk(number).block_hash for number in numbers]
            stored = {each for _, used in self.expected[app].values() for each in used}
            assert self.existing(app, id).refer_to(hashes) == [
                each for each in dict.fromkeys(hashes) if each not in stored
            ]
            self.expected[app][id][1].update(stored.intersection(hashes))

    @rule(app=apps, numbers=numbers, whole=st.booleans())
    def rewrite(self, app: str, numbers: list[int], whole: bool) -> None:
        """Store chunks at the next level, alone or with what is in their files."""
        found = {at for number in numbers if (at := self.store.locate(app, chunk(number).block_hash))}
        if whole:
            found = {each for at in found for each in self.store.beside(at)}
        new = {at: chunk(int.from_bytes(at.block_hash, "big"), 7, at.level + 1) for at in found}
        self.store.rewrite(new)
        self.store.rewrite(new)  # finds none of them there
        for at in found:
            now = self.store.locate(app, at.block_hash)
            assert now is not None
            assert now.level == at.level + 1

    @rule(app=apps, id=ids)
    def delete(self, app: str, id: str) -> None:
        if self.expected[app].pop(id, None) is None:
            with pytest.raises(ContextNotFoundError):
                self.store.delete(app, id)
        else:
            context = self.existing(app, id)
            self.store.delete(app, id)
            with pytest.raises(ContextNotFoundError):
                context.append_text(b"")

    @rule()
    def reopen(self) -> None:
        secret = self.store.secret
        self.store.close()
        self.store = self.opened()
        assert self.store.secret == secret

    @rule()
    def crash(self) -> None:
        """Go on with what a killed process would have left."""
        copy = self.folder / "copy"
        shutil.copytree(self.folder / "contexts", copy)
        self.store.close()
        shutil.rmtree(self.folder / "contexts")
        copy.rename(self.folder / "contexts")
        self.store = self.opened()

    @rule()
    @precondition(lambda self: self.expected["notes"])
    def use_another_fingerprint(self) -> None:
        self.store.use_fingerprint(b"another model")
        for app in self.expected.values():
            for _, used in app.values():
                used.clear()
        self.store.use_fingerprint(FINGERPRINT)

    @invariant()
    def holds_what_the_dictionary_holds(self) -> None:
        assert contents(self.store) == self.expected

    @invariant()
    def stores_each_chunk_of_an_app_once(self) -> None:
        statistics = self.store.statistics()
        different = [{each for _, used in app.values() for each in used} for app in self.expected.values()]
        assert statistics.chunks == sum(map(len, different))
        assert statistics.damaged_chunks == statistics.refused_files == statistics.dropped_chunks == 0
        assert statistics.contexts == sum(map(len, self.expected.values()))

    @invariant()
    def counts_its_bytes(self) -> None:
        statistics = self.store.statistics()
        files = (self.folder / "contexts").glob("*.chunks")
        assert statistics.chunk_bytes == sum(file.stat().st_size for file in files)
        texts = [record for app in self.expected.values() for text, _ in app.values() for record in text]
        overhead = self.store._database.sealer(b"").overhead
        names = self.store._database.execute("SELECT sum(length(identity)) FROM context")[0][0] or 0
        assert statistics.text_bytes == names + sum(len(record) + overhead for record in texts)

    def existing(self, app: str, id: str):
        context = self.store.get(app, id)
        assert context is not None
        return context


class EncryptedStoreMachine(StoreMachine):
    """An encrypted one."""

    encrypted = True


TestStore = StoreMachine.TestCase
TestStore.settings = examples(30, stateful_step_count=20)
TestEncryptedStore = EncryptedStoreMachine.TestCase
TestEncryptedStore.settings = examples(10, stateful_step_count=20)


def test_a_context_knows_the_order_of_its_chunks(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        store.create("notes", "a").append_chunks([chunk(2), chunk(4)])
        context = store.create("notes", "b")
        context.append_chunks([chunk(number) for number in (1, 2, 3, 2, 1)])
        context.refer_to([chunk(number).block_hash for number in (9, 4, 1)])
        context.append_chunks([chunk(5)])
        order = [chunk(number).block_hash for number in (1, 2, 3, 4, 5)]
        assert context.block_hashes == order
        store.delete("notes", "a")
        assert context.block_hashes == order
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert store.get("notes", "b").block_hashes == order


def test_no_app_finds_what_another_has_stored(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        store.create("notes", "a").append_chunks([chunk(1)])
        assert store.get("mail", "a") is None
        assert store.locate("mail", chunk(1).block_hash) is None
        assert store.create("mail", "a").refer_to([chunk(1).block_hash]) == [chunk(1).block_hash]


def test_a_chunk_that_was_handed_on_is_found_at_its_earlier_location(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        store.create("notes", "a").append_chunks([chunk(1), chunk(2)])
        store.create("notes", "b").refer_to([chunk(1).block_hash])
        shared, own = (store.locate("notes", chunk(number).block_hash) for number in (1, 2))
        store.delete("notes", "a")
        assert store.read(shared) == chunk(1)
        with pytest.raises(ChunkDamagedError):
            store.read(own)
        assert store.statistics().damaged_chunks == 0


def test_a_closed_store_changes_nothing(tmp_path: Path) -> None:
    store = ContextStore(tmp_path, FINGERPRINT)
    context = store.create("notes", "a")
    store.close()
    store.close()
    for change in (
        lambda: context.append_text(b"text"),
        lambda: context.append_chunks([chunk(1)]),
        lambda: store.create("notes", "b"),
        lambda: store.delete("notes", "a"),
    ):
        with pytest.raises(RuntimeClosedError):
            change()
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert contents(store) == {"notes": {"a": ([], set())}, "mail": {}}


def test_without_a_fingerprint_there_is_text_only(tmp_path: Path) -> None:
    with ContextStore(tmp_path, FINGERPRINT) as store:
        context = store.create("notes", "a")
        context.append_text(b"text")
        context.append_chunks([chunk(1)])
    with ContextStore(tmp_path) as store:
        context = store.contexts("notes")[0]
        assert contents(store)["notes"] == {"a": ([b"text"], set())}
        assert context.append_chunks([chunk(2)]) == 0
        assert context.refer_to([chunk(1).block_hash]) == [chunk(1).block_hash]
        store.use_fingerprint(FINGERPRINT)
        assert contents(store)["notes"] == {"a": ([b"text"], {chunk(1).block_hash})}


class UnreadableDisk(Disk):
    """A disk of which no file can be read."""

    def read(self, path: Path, extent: Extent, soon: Extent | None = None) -> NoReturn:
        raise AssertionError(path)


@pytest.mark.check
@pytest.mark.slow
def test_ten_thousand_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = PrivateDatabase.change
    with monkeypatch.context() as patch, ContextStore(tmp_path, FINGERPRINT) as store:
        patch.setattr("os.fsync", lambda _: None)
        patch.setattr(PrivateDatabase, "change", lambda database, **_: change(database, synced=False))
        for number in range(10_000):
            context = store.create(f"app {number % 100}", str(number))
            context.append_text(b"text")
            context.append_chunks([chunk(number % 7), chunk(number)])
    with ContextStore(tmp_path, FINGERPRINT, disk=UnreadableDisk()) as store:
        assert store.statistics().contexts == 10_000
        assert store.statistics().chunks == 10_000 + 100 * 7 - 7  # seven are shared in each app
    with ContextStore(tmp_path, FINGERPRINT) as store:
        assert [context.id for context in store.contexts("app 7")] == [
            str(number) for number in range(7, 10_000, 100)
        ]
        for number in range(0, 10_000, 111):
            assert store.get(f"app {number % 100}", str(number)).read_text() == [b"text"]
            location = store.locate(f"app {number % 100}", chunk(number).block_hash)
            assert store.read(location) == chunk(number)
