"""The table of contexts: what apps find, what they may have, and who may continue a text."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from agentrt.errors import ContextBusyError, ContextNotFoundError
from agentrt.runtime.contexts import table as table_file
from agentrt.runtime.contexts.table import ContextTable
from tests.patience import until
from tests.runtime.conftest import executed_lines
from tests.runtime.contexts.memory_store import MemoryStore

HELLO = {"role": "user", "content": "Hello!"}
HI = {"role": "assistant", "content": "Hi."}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def table(limit: int = 4, store: MemoryStore | None = None, clock: Clock | None = None) -> ContextTable:
    return ContextTable(limit, store, clock or Clock())


def test_of_many_threads_one_continues_a_context() -> None:
    contexts = table()
    made = contexts.create("a")
    together = threading.Barrier(8)

    def call(number: int) -> int:
        together.wait(30)
        try:
            turn = contexts.begin_turn("a", made.id)
        except ContextBusyError:
            together.wait(30)
            return 0
        together.wait(30)
        turn.commit([{"role": "user", "content": str(number)}], 1)
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(call, range(8))) == 1
    assert len(contexts.get("a", made.id).turns) == 1


def test_a_closed_turn_commits_nothing() -> None:
    contexts = table()
    made = contexts.create("a")
    turn = contexts.begin_turn("a", made.id)
    turn.close()
    other = contexts.begin_turn("a", made.id)
    turn.commit([HELLO, HI], 1)
    assert contexts.get("a", made.id).messages == ()
    other.commit([HELLO], 1)
    assert contexts.get("a", made.id).messages == (HELLO,)


def test_deleting_a_context_ends_its_call() -> None:
    contexts = table()
    gone: list[tuple[str, str | None]] = []
    contexts.on_delete(lambda *deleted: gone.append(deleted))
    made = contexts.create("a")
    turn = contexts.begin_turn("a", made.id)
    output: Future[None] = Future()
    cancelled: list[bool] = []
    contexts.track("a", made.id, output, lambda: cancelled.append(True))
    contexts.delete("a", made.id)
    assert cancelled == [True]
    assert gone == [("a", made.id)]
    with pytest.raises(ContextNotFoundError):
        turn.commit([HELLO, HI], 1)
    with pytest.raises(ContextNotFoundError):
        contexts.get("a", made.id)
    output.set_result(None)
    contexts.track("a", made.id, output, lambda: cancelled.append(True))  # a request that came too late
    assert cancelled == [True]


def test_the_tokens_of_a_session_are_known_from_its_requests() -> None:
    store = MemoryStore()
    contexts = table(store=store)
    id = contexts.session("a", "x")
    assert contexts.get("a", id).tokens is None
    for tokens, known in ((12, 12), (20, 20), (None, 20)):
        output: Future[None] = Future()
        contexts.track("a", id, output, lambda: None, lambda tokens=tokens: tokens)
        output.set_result(None)
        assert contexts.get("a", id).tokens == known
    assert table(store=store).get("a", id).tokens is None  # it has not been stored
    made = contexts.create("a").id
    output = Future()
    contexts.track("a", made, output, lambda: None, lambda: 12)
    output.set_result(None)
    assert contexts.get("a", made).tokens == 0  # that of the text, which the request has not continued


def test_threads_that_name_one_new_session_make_one_context() -> None:
    contexts = table()
    together = threading.Barrier(8)

    def name(_: int) -> str:
        together.wait(30)
        return contexts.session("a", "x")

    with ThreadPoolExecutor(8) as pool:
        (id,) = set(pool.map(name, range(8)))
    assert len(id) == len("ctx_") + 48, "it is unguessable"


executed = functools.partial(executed_lines, folder=table_file.__file__.rpartition("/")[0])


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(ContextNotFoundError):
        call()


@pytest.mark.parametrize("method", ["get", "delete", "begin_turn"])
def test_another_apps_context_takes_the_same_steps_as_an_unknown_one(method: str) -> None:
    contexts = table(limit=100)
    foreign = [contexts.create("other").id for _ in range(50)]
    contexts.create("mine")
    look_up = getattr(contexts, method)
    of_other = {executed(lambda id=id: refused(lambda: look_up("mine", id))) for id in foreign}
    unknown = executed(lambda: refused(lambda: look_up("mine", "ctx_" + "0" * 48)))
    never_seen = executed(lambda: refused(lambda: look_up("mine", "x")))
    assert of_other == {unknown} == {never_seen}
    assert unknown > 3


def test_steps_do_not_grow_with_the_number_of_contexts() -> None:
    contexts = table(limit=10_000)
    contexts.load("a")

    def all_steps() -> list[int]:
        made: list[str] = []
        return [
            executed(lambda: made.append(contexts.create("a").id)),
            executed(lambda: contexts.begin_turn("a", made[0]).commit([HELLO], 1)),
            executed(lambda: contexts.session("a", made[0])),
            executed(lambda: contexts.delete("a", made[0])),
        ]

    few = all_steps()
    for number in range(9_000):
        contexts.create("a")
        contexts.session("a", str(number))
    assert all_steps() == few


def test_the_text_survives_a_restart() -> None:
    store = MemoryStore()
    contexts = table(store=store)
    made = contexts.create("a", messages=[{"role": "system", "content": "Be brief."}])
    session = contexts.session("a", "x")
    with contexts.begin_turn("a", made.id) as turn:
        assert turn.messages == made.messages
        turn.commit([HELLO, HI], 12)
    assert contexts.get("a", made.id).tokens == 12
    before = contexts.get("a", made.id)

    restarted = table(store=store)
    assert not restarted.loaded("a")
    restarted.load("a")
    assert restarted.loaded("a")
    assert restarted.get("a", made.id) == before
    assert restarted.session("a", "x") == session
    with restarted.begin_turn("a", made.id) as turn:
        turn.commit([HELLO, HI], 24)
    assert table(store=store).get("a", made.id).tokens == 24


def test_the_clock_may_go_backwards() -> None:
    store, clock = MemoryStore(), Clock()
    contexts = table(store=store, clock=clock)
    made = contexts.create("a")
    clock.now = 0
    with contexts.begin_turn("a", made.id) as turn:
        turn.commit([HELLO], 1)
    clock.now = 0
    restarted = table(store=store, clock=clock)
    found = restarted.get("a", made.id)
    assert found.last_used >= found.created
    assert restarted.create("a").created >= found.last_used


def test_where_the_store_fails_nothing_has_changed() -> None:
    store = MemoryStore()
    contexts = table(store=store)
    made = contexts.create("a")
    store.of(made.id).failure = store.failure = OSError("disk full")

    def commit() -> None:
        with contexts.begin_turn("a", made.id) as turn:
            turn.commit([HELLO, HI], 1)

    changes = [
        commit,
        lambda: contexts.create("a"),
        lambda: contexts.delete("a", made.id),
        lambda: contexts.delete_all("a"),
    ]
    for change in changes:
        with pytest.raises(OSError, match="disk full"):
            change()
        assert [context.id for context in contexts.contexts("a")] == [made.id]
        assert contexts.get("a", made.id).messages == ()
    store.of(made.id).failure = store.failure = None
    commit()
    assert contexts.get("a", made.id).messages == (HELLO, HI)
    contexts.delete_all("a")
    assert contexts.contexts("a") == []


def test_deleting_everything_of_an_app() -> None:
    store = MemoryStore()
    contexts = table(store=store)
    gone: list[tuple[str, str | None]] = []
    contexts.on_delete(lambda *deleted: gone.append(deleted))
    made = contexts.create("a")
    kept = contexts.create("b")
    turn = contexts.begin_turn("a", made.id)
    contexts.session("a", "x")
    store.create("a", "kv_1", {"kind": "prefix"})  # KV of requests that name no context
    contexts.delete_all("a")
    assert gone == [("a", None)]
    assert contexts.contexts("a") == []
    assert list(store.apps) == ["b"]
    assert [context.id for context in contexts.contexts("b")] == [kept.id]
    with pytest.raises(ContextNotFoundError):
        turn.commit([HELLO, HI], 1)
    assert list(store.apps) == ["b"]
    contexts.create("a")
    assert len(contexts.contexts("a")) == 1


def test_a_turn_that_is_being_written_does_not_come_back() -> None:
    store = MemoryStore()
    contexts = table(store=store)
    made = contexts.create("a")
    turn = contexts.begin_turn("a", made.id)
    writing, go = threading.Event(), threading.Event()
    append = store.of(made.id).append_text

    def slow(record: bytes) -> None:
        writing.set()
        assert go.wait(30)
        append(record)

    store.of(made.id).append_text = slow  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        commit = pool.submit(turn.commit, [HELLO, HI], 1)
        assert writing.wait(30)
        deletion = pool.submit(contexts.delete_all, "a")
        until(lambda: contexts.find("a", made.id) is None)
        go.set()
        deletion.result(30)
        assert isinstance(commit.exception(30), ContextNotFoundError)
    assert store.contexts("a") == []
    assert contexts.contexts("a") == []
