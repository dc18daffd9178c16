"""Stored responses: chains in one context, forks, deletion."""

from __future__ import annotations

import json
from concurrent.futures import Future

import pytest

from agentrt.errors import ContextBusyError, ContextStoreError
from agentrt.runtime.contexts.app_contexts import OpenTurn
from agentrt.runtime.contexts.context import ContextKind
from agentrt.runtime.contexts.response_chains import ResponseChains, StoredResponse
from agentrt.runtime.contexts.table import ContextTable
from tests.runtime.contexts.memory_store import MemoryStore, MemoryText


def commit(turn: OpenTurn, id: str) -> None:
    turn.commit([{"role": "user", "content": id}], 1, {"id": id, "output": [], "secret": f"body of {id}"})


class Responses:
    """Stores responses whose conversation is their ids."""

    def __init__(self, limit: int = 4) -> None:
        self.store = MemoryStore()
        self.limit = limit
        self.restart()

    def restart(self) -> None:
        self.table = ContextTable(self.limit, self.store)
        self.chains = ResponseChains(self.table)

    def begin(self, previous: StoredResponse | None, app: str = "a", session: str | None = None) -> OpenTurn:
        turn = self.chains.begin(app, self.chains.context_for(app, previous, session))
        assert turn is not None
        return turn

    def add(self, id: str, previous: str | None = None, app: str = "a") -> None:
        turn = self.begin(None if previous is None else self.find(previous, app), app)
        commit(turn, id)
        self.chains.close(app, turn)

    def find(self, id: str, app: str = "a") -> StoredResponse:
        found = self.chains.find(app, id)
        assert found is not None
        return found

    def conversation(self, id: str) -> str:
        return "".join(message["content"] for message in self.find(id).messages)

    @property
    def contexts(self) -> int:
        return len(self.table.contexts("a"))


@pytest.fixture
def responses() -> Responses:
    return Responses()


def test_a_chain_is_one_context(responses: Responses) -> None:
    responses.add("1")
    responses.add("2", previous="1")
    responses.add("3", previous="2")
    assert [responses.conversation(id) for id in "123"] == ["1", "12", "123"]
    (context,) = responses.table.contexts("a")
    assert context.kind is ContextKind.RESPONSES
    responses.restart()
    assert responses.find("2").body["secret"] == "body of 2"
    responses.add("4", previous="3")
    assert responses.conversation("4") == "1234"
    assert responses.contexts == 1


def test_a_fork_is_a_context_of_its_own(responses: Responses) -> None:
    responses.add("1")
    responses.add("2", previous="1")
    responses.add("x", previous="1")
    responses.add("y", previous="x")
    assert responses.contexts == 2
    assert [responses.conversation(id) for id in "2xy"] == ["12", "1x", "1xy"]


def test_two_requests_continue_one_response_at_a_time(responses: Responses) -> None:
    responses.add("1")
    first = responses.chains.context_for("a", responses.find("1"))
    turn = responses.chains.begin("a", first)
    assert turn is not None
    assert responses.chains.begin("a", first) is None  # a request that was as fast to choose the context
    responses.add("x", previous="1")
    commit(turn, "2")
    assert responses.contexts == 2
    assert [responses.conversation(id) for id in ("2", "x")] == ["12", "1x"]
    assert responses.chains.begin("a", first) is None  # the context has gone on


def test_a_response_is_continued_while_its_request_winds_up(responses: Responses) -> None:
    turn = responses.begin(None)
    request: Future[None] = Future()
    responses.table.track("a", turn.context_id, request, lambda: None)
    commit(turn, "1")
    responses.add("2", previous="1")  # the engine has not ended the first request
    request.set_result(None)
    assert responses.contexts == 1
    assert responses.conversation("2") == "12"


def test_a_response_that_is_not_stored_leaves_nothing(responses: Responses) -> None:
    responses.chains.close("a", responses.begin(None))
    assert responses.contexts == 0
    responses.chains.context_for("a", None)
    responses.restart()  # before the first response was complete
    assert responses.contexts == 0


def test_deleting_a_response(responses: Responses) -> None:
    for id, previous in (("1", None), ("2", "1"), ("3", "2")):
        responses.add(id, previous)
    assert responses.chains.delete("a", "2")
    assert not responses.chains.delete("a", "2")
    assert not responses.chains.delete("other", "1")
    assert responses.chains.find("a", "2") is None
    assert responses.conversation("3") == "123"
    assert responses.chains.delete("a", "3")
    assert responses.conversation("1") == "1"
    (stored,) = responses.store.contexts("a")
    # Text that no response can show any more is not kept.
    assert [json.loads(record)["response"]["id"] for record in stored.read_text()] == ["1"]
    responses.add("4", previous="1")
    assert responses.contexts == 1
    assert responses.chains.delete("a", "1")
    assert b"body of 1" not in b"".join(stored.read_text())
    assert responses.chains.delete("a", "4")
    assert responses.contexts == 0
    assert responses.store.contexts("a") == []


def test_a_response_that_is_being_continued_is_not_deleted(responses: Responses) -> None:
    responses.add("1")
    turn = responses.begin(responses.find("1"))
    with pytest.raises(ContextBusyError):
        responses.chains.delete("a", "1")
    commit(turn, "2")
    assert responses.conversation("2") == "12"


def test_apps_have_their_own_responses(responses: Responses) -> None:
    responses.add("1", app="b")
    assert responses.chains.find("a", "1") is None
    assert responses.find("1", app="b").turns == 1


def test_the_least_recently_used_chain_gives_way() -> None:
    responses = Responses(limit=2)
    for id in ("1", "2", "3"):
        responses.add(id)
    assert responses.chains.find("a", "1") is None
    assert responses.contexts == 2


def test_a_response_of_another_model_is_continued_in_a_copy(responses: Responses) -> None:
    other = Responses()
    other.add("1")
    turn = responses.begin(other.find("1"))
    commit(turn, "2")
    assert responses.conversation("2") == "12"
    assert other.conversation("1") == "1"


def test_a_copy_whose_first_response_was_not_stored_is_no_context_after_a_restart(
    responses: Responses,
) -> None:
    responses.add("1")
    responses.add("2", previous="1")
    responses.chains.context_for("a", responses.find("1"))
    assert responses.contexts == 2
    responses.restart()
    assert responses.contexts == 1
    assert len(responses.store.contexts("a")) == 1


def test_a_copy_that_cannot_be_written_leaves_nothing(
    responses: Responses, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses.add("1")
    responses.add("2", previous="1")

    def fail(text: MemoryText, records: object) -> None:
        raise ContextStoreError("the disk is full. Delete files.")

    monkeypatch.setattr(MemoryText, "replace_text", fail)
    with pytest.raises(ContextStoreError):
        responses.chains.context_for("a", responses.find("1"))
    assert responses.contexts == len(responses.store.contexts("a")) == 1


def test_a_chain_keeps_the_name_of_the_request_that_began_it(responses: Responses) -> None:
    for _ in range(2):  # any number of chains may have one name
        turn = responses.begin(None, session="thread 7")
        commit(turn, turn.context_id)
    responses.restart()
    assert [context.session for context in responses.table.contexts("a")] == ["thread 7"] * 2
    session = responses.table.session("a", "thread 7")
    assert responses.table.get("a", session).kind is ContextKind.SESSION
    for context in responses.table.contexts("a"):
        responses.table.delete("a", context.id)
    assert responses.table.session("a", "thread 7") != session
