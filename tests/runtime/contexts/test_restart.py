"""Texts of contexts on disk: after a restart, of models that are not loaded, and where the disk fails."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ContextNotFoundError, ContextStoreError
from agentrt.runtime import LocalRuntime, ModelPool, PooledModel, RuntimeConfig
from agentrt.runtime.contexts.table import ContextTable
from agentrt.runtime.kv.store.store import ContextStore
from agentrt.runtime.pool.pooled_model import find_context
from tests.runtime.conftest import open_exact

SYSTEM = "You help with notes, mail and the calendar."
HELLO = {"role": "user", "content": "Hello!"}


def test_contexts_and_sessions_survive_a_restart(
    open_runtime: Callable[..., LocalRuntime], tmp_path: Path
) -> None:
    runtime = open_runtime(context_folder=tmp_path)
    service = runtime.bind("app")
    context = service.new_context(SYSTEM * 10)
    service.call(context, "Hello!", max_tokens=20)
    runtime.generate([HELLO], app="app", session="chat 7", max_tokens=2)
    before = {each.id: each for each in service.contexts()}
    deleted = service.new_context()
    service.delete(deleted)
    runtime.close()

    again = open_runtime(context_folder=tmp_path)
    service = again.bind("app")
    found = {each.id: each for each in service.contexts()}
    assert found.keys() == before.keys()
    assert found[context.id] == before[context.id]
    assert again.bind("other").contexts() == []
    messages: list[Any] = [*found[context.id].messages, {"role": "user", "content": "Who are you?"}]
    answer = asyncio.run(service.acall(context.id, "Who are you?", max_tokens=20))
    assert answer.usage.cached_tokens >= 64  # from the disk: the arena was empty
    assert answer.token_ids == again.generate(messages, max_tokens=20).token_ids
    again.generate([HELLO], app="app", session="chat 7", max_tokens=2)
    assert len(service.contexts()) == 2
    with pytest.raises(ContextNotFoundError):
        service.get(deleted)


@pytest.mark.check
def test_the_session_that_was_used_last_does_not_give_way_after_a_restart(
    open_runtime: Callable[..., LocalRuntime], tmp_path: Path
) -> None:
    def generate(runtime: LocalRuntime, session: str) -> None:
        message = {"role": "user", "content": f"Hello {session}! " * 20}
        runtime.generate([message], app="app", session=session, max_tokens=5)

    runtime = open_runtime(context_folder=tmp_path, contexts_per_app=3)
    for session in ("a", "b", "c", "a"):  # the last request computes and stores nothing new
        generate(runtime, session)
    before = [each.session for each in runtime.bind("app").contexts()]
    runtime.close()

    again = open_runtime(context_folder=tmp_path, contexts_per_app=3)
    listed = again.bind("app").contexts()
    assert [each.session for each in listed] == before == ["a", "c", "b"]
    used = [each.last_used for each in listed]
    assert used == sorted(used, reverse=True)
    generate(again, "d")
    assert [each.session for each in again.bind("app").contexts()] == ["d", "a", "c"]


@pytest.mark.check
def test_a_model_that_is_not_loaded_has_its_contexts(tmp_path: Path) -> None:
    with open_exact(context_folder=tmp_path) as runtime:
        context = runtime.bind("app").new_context(SYSTEM)
        runtime.bind("app").call(context, "Hello!", max_tokens=4)
        config = runtime.config
        with pytest.raises(ContextStoreError, match="in use by another runtime"):
            ModelPool([PooledModel.find("nano", config)])
    models = [PooledModel.find("nano", config), PooledModel.find("nano-draft", config)]
    with ModelPool(models) as pool:
        model, found = find_context(pool.models, "app", context.id)
        assert (model.name, len(found.messages)) == ("nano", 3)
        with pytest.raises(ContextStoreError):
            LocalRuntime.open("nano", config)
        pool.open_first()
        assert models[0].runtime is not None
        models[0].runtime.bind("app").call(context, "Who are you?", max_tokens=4)
        assert len(find_context(pool.models, "app", context.id)[1].messages) == 5
    with open_exact(context_folder=tmp_path) as runtime:
        assert len(runtime.bind("app").get(context).messages) == 5


def test_a_pool_that_cannot_open_a_folder_closes_the_others(tmp_path: Path) -> None:
    config = RuntimeConfig(context_folder=tmp_path)
    twice = [PooledModel.find("nano", config, [name]) for name in ("one", "two")]
    for _ in range(2):
        with pytest.raises(ContextStoreError):
            ModelPool(twice)
    ModelPool(twice[:1]).close()


def test_a_session_is_served_where_the_disk_fails(
    shared_runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ContextStoreError("the disk is full. Free some space.")

    monkeypatch.setattr(shared_runtime.context_table, "create", fail)
    answer = shared_runtime.generate([HELLO], app="app", session="chat 7", max_tokens=4)
    assert answer.token_ids == shared_runtime.generate([HELLO], max_tokens=4).token_ids
    assert "served without a context: the disk is full" in caplog.text
    with pytest.raises(ContextStoreError):
        shared_runtime.bind("app").new_context()


def test_a_damaged_text_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ContextStore(tmp_path) as store:
        kept, damaged = (ContextTable(4, store).create("app") for _ in range(2))
        for context in (kept, damaged):
            ContextTable(4, store).begin_turn("app", context.id).commit([HELLO], 1)
    with closing(sqlite3.connect(tmp_path / "contexts.sqlite")) as database, database:
        database.execute("DELETE FROM turn WHERE context = 2")
    with ContextStore(tmp_path) as store:
        (found,) = ContextTable(4, store).contexts("app")
    assert (found.id, found.messages) == (kept.id, (HELLO,))
    (aside,) = tmp_path.rglob("*.refused-1")
    assert damaged.id.encode() in aside.read_bytes()
    assert aside.name in caplog.text


def test_blocks_are_stored_in_the_context_that_the_request_names(
    open_runtime: Callable[..., LocalRuntime], tmp_path: Path
) -> None:
    runtime = open_runtime(context_folder=tmp_path)
    service = runtime.bind("app")
    context = service.new_context(SYSTEM * 10)
    service.call(context, "Hello!", max_tokens=4)
    long = {"role": "user", "content": "Find my notes about lasagne. " * 20}
    runtime.generate([long], app="app", session="chat 7", max_tokens=4)
    store = runtime._kept.store
    assert store is not None
    runtime.close()
    stored = {stored.header["kind"]: stored for stored in store.contexts("app")}
    assert stored.keys() == {"context", "session"}
    assert stored["context"].id == context.id
    assert all(each.block_hashes for each in stored.values())
