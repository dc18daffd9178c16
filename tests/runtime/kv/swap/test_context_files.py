from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.errors import ContextNotFoundError
from agentrt.runtime.kv.store.chunk_files import Chunk
from agentrt.runtime.kv.store.store import ContextStore
from agentrt.runtime.kv.swap import swapper
from agentrt.runtime.kv.swap.chunks import OutgoingChunk, SwapOut
from agentrt.runtime.kv.swap.swapper import PREFIX_KIND, ContextFiles


def key(name: str) -> bytes:
    return name.encode().ljust(16)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ContextStore]:
    with ContextStore(tmp_path, b"model") as opened:
        yield opened


def write(files: ContextFiles, chain: str, *, app: str = "app", context_id: str = "") -> str:
    """Store the chunks of a chain of one-letter hashes; return those that were new."""
    hashes = tuple(key(chain[: end + 1]) for end in range(len(chain)))
    chunks = tuple(OutgoingChunk(block_hash, place, 0) for place, block_hash in enumerate(hashes))
    stored = files.write(
        SwapOut(app, context_id, hashes, chunks, files._store.salts.salt_for(app)),
        [Chunk(block_hash, 0, block_hash) for block_hash in hashes],
    )
    return "".join(chunk.block_hash.decode().strip()[-1] for chunk in stored)


def test_the_next_turn_continues_a_context(store: ContextStore) -> None:
    files = ContextFiles(store)
    assert write(files, "abc") == "abc"
    assert write(files, "abcde") == "de"
    (context,) = store.contexts("app")
    assert context.header == {"kind": PREFIX_KIND}
    assert list(context.block_hashes) == [key("abcde"[:end]) for end in range(1, 6)]


def test_a_branch_is_a_context_of_its_own_and_shares_the_prefix(store: ContextStore) -> None:
    files = ContextFiles(store)
    write(files, "abc")
    assert write(files, "abX") == "X"
    assert write(files, "abcd") == "d"
    first, second = sorted(store.contexts("app"), key=lambda context: len(context.block_hashes))
    assert first.block_hashes[-1] == key("abX")
    assert second.block_hashes[-1] == key("abcd")
    store.delete("app", second.id)
    assert store.locate("app", key("ab")) is not None, "the other one uses it"
    assert store.locate("app", key("abc")) is None


def test_contexts_are_continued_after_a_restart(tmp_path: Path) -> None:
    with ContextStore(tmp_path, b"model") as store:
        write(ContextFiles(store), "abc")
    with ContextStore(tmp_path, b"model") as store:
        assert write(ContextFiles(store), "abcd") == "d"
        assert len(store.contexts("app")) == 1


def test_a_named_context_keeps_its_own(store: ContextStore) -> None:
    files = ContextFiles(store)
    store.create("app", "ctx_1", {"kind": "context"})
    assert write(files, "ab", context_id="ctx_1") == "ab"
    assert write(files, "abc") == "c", "a request without a name does not write to it"
    named = store.get("app", "ctx_1")
    assert named is not None
    assert len(named.block_hashes) == 2


def test_a_context_that_was_deleted_meanwhile_is_left_alone(store: ContextStore) -> None:
    assert write(ContextFiles(store), "ab", context_id="ctx_1") == ""
    assert write(ContextFiles(store), "ab", context_id="ctx_1", app="other") == ""
    assert not store.contexts("app")


def test_apps_share_nothing(store: ContextStore) -> None:
    files = ContextFiles(store)
    assert write(files, "abc", app="mail") == "abc"
    assert write(files, "abc", app="notes") == "abc"


def test_an_app_has_a_bounded_number_of_them(store: ContextStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swapper, "MAX_PREFIX_CONTEXTS", 2)
    files = ContextFiles(store)
    for chain in ("a", "b", "ac", "d"):  # "ac" continues "a"
        write(files, chain)
    assert len(store.contexts("app")) == 2
    assert store.locate("app", key("b")) is None
    assert store.locate("app", key("ac")) is not None


def test_requests_that_began_before_everything_was_deleted_leave_nothing(store: ContextStore) -> None:
    files = ContextFiles(store)
    write(files, "abc")
    write(files, "abc", app="other")
    former = SwapOut("app", "", (key("d"),), (), store.salts.salt_for("app"))
    store.delete_all("app")
    chunk = Chunk(key("d"), 0, b"d")
    assert files.write(former, [chunk]) == ()
    assert store.contexts("app") == []
    assert write(files, "abc") == "abc"  # of a later request
    assert len(store.contexts("other")) == 1


def test_everything_is_deleted_while_a_request_is_written(
    store: ContextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ContextFiles(store)
    create = store.create

    def create_late(*arguments: object, **options: object) -> object:
        store.delete_all("app")
        return create(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "create", create_late)
    with pytest.raises(ContextNotFoundError):
        write(files, "abc")
    assert store.contexts("app") == []
