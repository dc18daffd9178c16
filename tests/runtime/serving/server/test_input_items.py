"""The input of stored responses, listed by the official client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime.contexts.response_chains import ResponseChains
from agentrt.runtime.contexts.table import ContextTable
from agentrt.runtime.serving.server.input_items import input_items
from tests.runtime.contexts.memory_store import MemoryStore
from tests.runtime.serving.server.test_responses import REQUEST
from tests.runtime.serving.server.test_stored_responses import apps, create

__all__ = ["apps"]


def texts(items: list[Any]) -> list[tuple[str, str]]:
    return [(item.role, "".join(part.text for part in item.content)) for item in items]


@pytest.fixture
def tool_loop(client: openai.OpenAI) -> list[Any]:
    """Two stored responses: one calls a tool, the other one has its output."""
    options: dict[str, Any] = {"tools": REQUEST["tools"], "max_output_tokens": 80}
    first = create(client, REQUEST["input"], **options)
    (call,) = first.output
    output = {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature_c": 12}'}
    return [first, create(client, [output], previous_response_id=first.id, **options)]  # type: ignore[arg-type]


def test_the_input_is_the_conversation_before_the_answer(client: openai.OpenAI) -> None:
    parts = [{"type": "input_text", "text": "What is the "}, {"type": "input_text", "text": "weather?"}]
    asked: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    first = create(client, asked, instructions="You help.")
    assert texts(client.responses.input_items.list(first.id, order="asc").data) == [
        ("system", "Be brief."),
        ("user", "What is the weather?"),
    ]
    second = create(client, "And in Bergen?", previous_response_id=first.id)
    listed = client.responses.input_items.list(second.id).data  # the newest first, as from OpenAI
    assert texts(listed) == [
        ("user", "And in Bergen?"),
        ("assistant", first.output_text),
        ("user", "What is the weather?"),
        ("system", "Be brief."),
    ]
    assert listed[1].id == first.output[0].id


def test_the_items_of_a_tool_loop_are_the_prompt(client: openai.OpenAI, tool_loop: list[Any]) -> None:
    first, second = tool_loop
    question, call, output = client.responses.input_items.list(second.id, order="asc").data
    assert (question.type, call.type, output.type) == ("message", "function_call", "function_call_output")
    assert call.model_dump(exclude_none=True) == first.output[0].model_dump(exclude_none=True)
    assert (output.call_id, output.output) == (call.call_id, '{"temperature_c": 12}')  # type: ignore[union-attr]
    items: Any = [item.model_dump(exclude_none=True) for item in (question, call, output)]
    again = create(client, items, tools=REQUEST["tools"], max_output_tokens=80, store=False)
    assert again.output_text == second.output_text
    assert again.usage.input_tokens == second.usage.input_tokens


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages(client: openai.OpenAI, tool_loop: list[Any], order: Any, limit: int) -> None:
    id = tool_loop[1].id
    whole = [item.id for item in client.responses.input_items.list(id, order="asc").data]
    assert len(set(whole)) == 3
    page = client.responses.input_items.list(id, order=order, limit=limit)
    assert len(page.data) == min(limit, 3)
    assert page.has_more is (limit < 3)
    assert [item.id for item in page] == (whole if order == "asc" else whole[::-1])  # all pages


def test_the_ends_of_a_page(http: httpx.Client, tool_loop: list[Any]) -> None:
    path = f"/v1/responses/{tool_loop[1].id}/input_items"
    page = http.get(path, params={"limit": 2}).json()
    assert page["object"] == "list"
    assert [page["first_id"], page["last_id"]] == [item["id"] for item in page["data"]]
    (last,) = http.get(path, params={"after": page["last_id"], "include": "x"}).json()["data"]
    nothing = http.get(path, params={"after": last["id"]}).json()
    assert nothing == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@pytest.mark.parametrize(
    ("param", "value"),
    [("limit", "0"), ("limit", "101"), ("limit", "many"), ("order", "up"), ("after", "msg_1"), ("after", "")],
)
def test_a_page_that_cannot_be(http: httpx.Client, tool_loop: list[Any], param: str, value: str) -> None:
    response = http.get(f"/v1/responses/{tool_loop[0].id}/input_items", params={param: value})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_another_apps_response_is_as_unknown_as_any(apps: list[openai.OpenAI]) -> None:
    one, two = apps
    foreign, unknown = create(one, "Hello!").id, "resp_" + "0" * 48
    bodies = []
    for id in (foreign, unknown):
        with pytest.raises(openai.NotFoundError) as caught:
            two.responses.input_items.list(id)
        assert caught.value.code == "response_not_found"
        bodies.append(json.dumps(caught.value.body).replace(id, "ID"))
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("deleted", [[0], [1], [0, 1], [1, 0]])
def test_deleting_what_came_before_changes_no_item(client: openai.OpenAI, deleted: list[int]) -> None:
    chain = [create(client, "Hello!", max_output_tokens=4)]
    for question in ("Who are you?", "And I?"):
        chain.append(create(client, question, max_output_tokens=4, previous_response_id=chain[-1].id))
    before = client.responses.input_items.list(chain[2].id, limit=2)
    whole = [item.model_dump() for item in client.responses.input_items.list(chain[2].id)]
    for index in deleted:
        client.responses.delete(chain[index].id)
    assert [item.model_dump() for item in client.responses.input_items.list(chain[2].id)] == whole
    following = client.responses.input_items.list(chain[2].id, limit=2, after=before.data[-1].id)
    assert [item.model_dump() for item in following.data] == whole[2:4]


class Chain:
    """Stored responses that repeat what was said to them."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.restart()

    def restart(self) -> None:
        self.chains = ResponseChains(ContextTable(9, self.store))

    def add(self, id: str, previous: str | None = None) -> None:
        before = None if previous is None else self.chains.find("a", previous)
        turn = self.chains.begin("a", self.chains.context_for("a", before))
        assert turn is not None
        content = [{"type": "output_text", "text": f"said {id}"}]
        output = {"type": "message", "id": f"msg_{id}", "role": "assistant", "content": content}
        messages = [{"role": "user", "content": id}, {"role": "assistant", "content": f"said {id}"}]
        turn.commit(messages, 1, {"id": id, "output": [output]})

    def items(self, id: str) -> list[dict[str, Any]]:
        found = self.chains.find("a", id)
        assert found is not None
        return input_items(found)

    def texts(self, id: str) -> list[str]:
        return [item["content"][0]["text"] for item in self.items(id)]


def test_items_stay_the_same_when_the_conversation_goes_on_and_after_a_restart() -> None:
    chain = Chain()
    chain.add("1")
    chain.add("2", previous="1")
    chain.add("3", previous="2")
    assert [item["id"] for item in chain.items("3")][1::2] == ["msg_1", "msg_2"]
    assert chain.items("3")[:3] == chain.items("2")
    assert chain.items("2")[:1] == chain.items("1")
    before = chain.items("3")
    chain.restart()
    assert chain.items("3") == before


def test_equal_messages_are_items_of_their_own() -> None:
    store = MemoryStore()
    chains = ResponseChains(ContextTable(9, store))
    messages = [{"role": "user", "content": "Again."}] * 9
    turn = chains.begin("a", chains.context_for("a", None))
    assert turn is not None
    turn.commit(messages, 1, {"id": "1", "output": []})
    found = chains.find("a", "1")
    assert found is not None
    assert len({item["id"] for item in input_items(found)}) == 9


def test_forks_and_deleted_responses_keep_their_conversation() -> None:
    chain = Chain()
    chain.add("1")
    chain.add("2", previous="1")
    chain.add("x", previous="1")
    chain.add("y", previous="x")
    assert chain.texts("x") == ["1", "said 1", "x"]
    assert chain.texts("y") == ["1", "said 1", "x", "said x", "y"]
    before = chain.items("y")
    assert before[:2] == chain.items("2")[:2]
    for delete in ("x", "1", "2"):
        assert chain.chains.delete("a", delete)
        assert chain.items("y") == before
        chain.restart()
        assert chain.items("y") == before
    assert len({item["id"] for item in before}) == 5
    assert chain.chains.delete("a", "y")
    assert not chain.store.contexts("a")
