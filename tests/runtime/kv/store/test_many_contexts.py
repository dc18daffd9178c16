"""Opening a folder reads no KV, however much there is."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from agentrt.private_database import PrivateDatabase
from agentrt.runtime.kv.store.chunk_files import Disk, Extent
from agentrt.runtime.kv.store.store import ContextStore
from tests.runtime.kv.store.stores import FINGERPRINT, chunk


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
