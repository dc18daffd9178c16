"""Stored responses through the official client: continued, shown and deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.contexts.response_chains import ResponseChains
from agentrt.runtime.contexts.table import ContextTable
from agentrt.runtime.serving.http.identity import LOCAL_APP, Tokens
from agentrt.runtime.serving.server.response_items import ResponsesRequest, input_items
from agentrt.runtime.serving.server.responses import _ResponseWriter
from tests.patience import until
from tests.runtime.conftest import Gate
from tests.runtime.contexts.memory_store import MemoryStore
from tests.runtime.serving.http.serving import Start
from tests.runtime.serving.server.test_responses import REQUEST, SHORT

SYSTEM = "You help with notes, mail and the calendar."


def create(client: openai.OpenAI, text: str, *, streamed: bool = False, **options: Any) -> Any:
    body = {"model": "nano", "input": text, "max_output_tokens": 30, **options}
    if not streamed:
        return client.responses.create(**body)
    *_, last = client.responses.create(**body, stream=True)
    assert last.type in ("response.completed", "response.incomplete")
    return last.response


def conversations(http: httpx.Client) -> list[list[str]]:
    listed = http.get("/v1/contexts").json()["data"]
    shown = [http.get(f"/v1/contexts/{context['id']}").json() for context in listed]
    assert {context["kind"] for context in shown} <= {"responses"}
    return sorted([message["content"] for message in context["messages"]] for context in shown)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_response_continues_the_conversation(
    client: openai.OpenAI, runtime: LocalRuntime, http: httpx.Client, streamed: bool
) -> None:
    messages: list[Any] = []
    previous: Any = None
    for question in ("Hello!", "What is the weather in Oslo?", "And in Bergen?"):
        messages.append({"role": "user", "content": question})
        expected = runtime.generate(messages, max_tokens=30, app="stateless")
        id = None if previous is None else previous.id
        response = create(client, question, previous_response_id=id, streamed=streamed)
        assert response.output_text == expected.text
        assert response.usage.input_tokens == expected.usage.prompt_tokens
        assert response.previous_response_id == id
        messages.append({"role": "assistant", "content": expected.text})
        previous = response
    assert previous.usage.input_tokens_details.cached_tokens > 0
    assert conversations(http) == [[message["content"] for message in messages]]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(client: openai.OpenAI, http: httpx.Client, streamed: bool) -> None:
    asked = create(client, REQUEST["input"], tools=REQUEST["tools"], max_output_tokens=80, streamed=streamed)
    (call,) = asked.output
    output: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature_c": 12}'}
    ]
    answer = create(
        client,
        output,
        tools=REQUEST["tools"],
        max_output_tokens=80,
        previous_response_id=asked.id,
        streamed=streamed,
    )
    assert "12" in answer.output_text
    items = [{"role": "user", "content": REQUEST["input"]}, call.model_dump(), *output]
    whole = create(client, items, tools=REQUEST["tools"], max_output_tokens=80, store=False)  # type: ignore[arg-type]
    assert answer.output_text == whole.output_text
    assert len(conversations(http)) == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_an_output_of_a_call_that_was_not_made_is_refused(
    client: openai.OpenAI, http: httpx.Client, streamed: bool
) -> None:
    first = create(client, "Hello!")
    before = conversations(http)
    orphan: Any = [{"type": "function_call_output", "call_id": "call_0", "output": "12 C"}]
    with pytest.raises(openai.BadRequestError, match="call_0") as caught:
        create(client, orphan, previous_response_id=first.id, streamed=streamed)
    assert caught.value.param == "input"
    odd: Any = [{"type": "function_call_output", "call_id": ["call_0"], "output": "12 C"}]
    with pytest.raises(openai.BadRequestError):
        create(client, odd, previous_response_id=first.id)
    assert conversations(http) == before
    # A whole conversation may be cut in front.
    cut: Any = [*orphan, {"role": "assistant", "content": "12 C."}, {"role": "user", "content": "Thanks."}]
    begun = create(client, cut, streamed=streamed)
    assert create(client, "And now?", previous_response_id=begun.id, streamed=streamed).output_text


def test_instructions_are_of_one_response(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    first = create(client, "Hello!", instructions=SYSTEM)
    second = create(client, "Who are you?", previous_response_id=first.id)
    messages = [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "Who are you?"},
    ]
    assert second.output_text == runtime.generate(messages, max_tokens=30).text
    body = ResponsesRequest(input="Who are you?", instructions="Be brief.")
    before: Any = SimpleNamespace(messages=messages[:2])
    prompt = _ResponseWriter("nano", body, before, "app", None).prompt
    assert prompt == [{"role": "system", "content": "Be brief."}, *messages]
    third = create(client, "Who are you?", previous_response_id=first.id, instructions="Be brief.")
    messages.insert(0, {"role": "system", "content": "Be brief."})
    assert third.output_text == runtime.generate(messages, max_tokens=30).text


@pytest.mark.parametrize("streamed", [False, True])
def test_a_full_conversation_says_what_helps_and_it_does(client: openai.OpenAI, streamed: bool) -> None:
    first = create(client, "word " * 600, max_output_tokens=2)
    advice = "send what still matters of the conversation as input, without previous_response_id"
    with pytest.raises(openai.BadRequestError, match=advice) as caught:
        create(client, "word " * 600, previous_response_id=first.id, streamed=streamed)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")
    items: Any = [*first.output, {"role": "user", "content": "What did you say?"}]
    assert create(client, items, streamed=streamed).status == "completed"
    many: Any = [{"role": "user", "content": "x"}] * 4095
    with pytest.raises(openai.BadRequestError, match=f"would have 4097 messages.*{advice}") as caught:
        create(client, many, previous_response_id=first.id, streamed=streamed)
    assert caught.value.param == "input"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_stored_response_is_shown_and_deleted(client: openai.OpenAI, streamed: bool) -> None:
    response = create(client, "Hello!", metadata={"key": "value"}, streamed=streamed)
    assert client.responses.retrieve(response.id) == response
    following = create(client, "Who are you?", previous_response_id=response.id)
    client.responses.delete(response.id)
    for use in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            use(response.id)
        assert caught.value.code == "response_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        create(client, "Hello!", previous_response_id=response.id)
    assert (refused.value.code, refused.value.param) == (
        "previous_response_not_found",
        "previous_response_id",
    )
    assert create(client, "And you?", previous_response_id=following.id).output_text


def test_the_answer_to_a_deletion(client: openai.OpenAI, http: httpx.Client) -> None:
    id = create(client, "Hello!").id
    deleted = http.delete(f"/v1/responses/{id}")
    assert deleted.json() == {"id": id, "object": "response", "deleted": True}
    assert conversations(http) == []
    assert http.get(f"/v1/responses/{id}", params={"stream": True}).status_code == 400


@pytest.mark.parametrize("streamed", [False, True])
def test_store_false_stores_nothing(client: openai.OpenAI, http: httpx.Client, streamed: bool) -> None:
    first = create(client, "Hello!")
    before = conversations(http)
    second = create(client, "Who are you?", previous_response_id=first.id, store=False, streamed=streamed)
    assert second.model_dump()["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)
    assert conversations(http) == before
    stored = create(client, "Who are you?", previous_response_id=first.id)
    assert stored.output_text == second.output_text


def test_one_response_is_continued_twice(client: openai.OpenAI, http: httpx.Client) -> None:
    first = create(client, "Hello!")
    one = create(client, "What is the weather in Oslo?", previous_response_id=first.id)
    two = create(client, "Find my notes.", previous_response_id=first.id)
    begin = ["Hello!", first.output_text]
    assert conversations(http) == sorted(
        [
            [*begin, "What is the weather in Oslo?", one.output_text],
            [*begin, "Find my notes.", two.output_text],
        ]
    )


def test_one_response_is_continued_twice_at_once(client: openai.OpenAI, http: httpx.Client) -> None:
    first = create(client, "Hello!")
    with ThreadPoolExecutor(4) as pool:
        questions = [f"What is {number} and {number}?" for number in range(4)]
        answers = [pool.submit(create, client, each, previous_response_id=first.id) for each in questions]
        texts = [answer.result(60).output_text for answer in answers]
    expected = [
        ["Hello!", first.output_text, question, text] for question, text in zip(questions, texts, strict=True)
    ]
    assert conversations(http) == sorted(expected)


def test_a_response_that_is_not_complete_is_not_stored(http: httpx.Client) -> None:
    body = SHORT | {"max_output_tokens": 3000, "ignore_eos": True, "stream": True}
    with http.stream("POST", "/v1/responses", json=body) as response:
        created = next(line for line in response.iter_lines() if line.startswith("data:"))
    id = json.loads(created.removeprefix("data:"))["response"]["id"]
    until(lambda: not http.get("/v1/contexts").json()["data"])
    assert http.get(f"/v1/responses/{id}").status_code == 404
    assert http.post("/v1/responses", json=SHORT | {"input": []}).status_code == 400
    assert conversations(http) == []


@pytest.mark.parametrize("streamed", [False, True])
def test_deleting_the_context_of_a_response_in_progress(
    client: openai.OpenAI, http: httpx.Client, gate: Gate, streamed: bool
) -> None:
    seen: list[str] = []

    def respond() -> None:
        body = SHORT | {"max_output_tokens": 3000, "extra_body": {"ignore_eos": True}}
        answer = client.responses.create(**body, stream=streamed)
        for event in answer if streamed else ():
            seen.append(event.type)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(respond)
        gate.arrived()
        (context,) = http.get("/v1/contexts").json()["data"]
        assert context["status"] == "running"
        http.delete(f"/v1/contexts/{context['id']}")
        gate.open()
        with nullcontext() if streamed else pytest.raises(openai.NotFoundError):
            running.result(60)
    assert not streamed or seen[-1] == "response.failed"  # which clients show as an event, not as an error
    assert conversations(http) == []


def test_a_response_that_is_being_continued_is_not_deleted(
    client: openai.OpenAI, runtime: LocalRuntime, hold: Callable[[LocalRuntime], Gate]
) -> None:
    first = create(client, "Hello!", max_output_tokens=2)
    gate = hold(runtime)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(create, client, "Who are you?", previous_response_id=first.id)
        gate.arrived()
        with pytest.raises(openai.ConflictError):
            client.with_options(max_retries=0).responses.delete(first.id)
        gate.open()
        assert client.responses.retrieve(running.result(60).id)


@pytest.fixture
def apps(start: Start) -> Iterator[list[openai.OpenAI]]:
    tokens = [("one", "token-of-the-first-app"), ("two", "token-of-the-second-app")]
    server = start(tokens=Tokens(tokens))
    clients = [
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=token, max_retries=0, timeout=60)
        for _, token in tokens
    ]
    yield clients
    for client in clients:
        client.close()


def test_another_apps_response_is_as_unknown_as_any(apps: list[openai.OpenAI]) -> None:
    one, two = apps
    foreign, unknown = create(one, "Hello!").id, "resp_" + "0" * 48
    for use in (two.responses.retrieve, two.responses.delete, two.responses.input_items.list):
        bodies = []
        for id in (foreign, unknown):
            with pytest.raises(openai.NotFoundError) as caught:
                use(id)
            bodies.append(json.dumps(caught.value.body).replace(id, "ID"))
        assert bodies[0] == bodies[1]
    with pytest.raises(openai.BadRequestError):
        create(two, "Hello!", previous_response_id=foreign)
    assert one.responses.retrieve(foreign).id == foreign


def test_an_unstored_response_may_name_its_session(http: httpx.Client, runtime: LocalRuntime) -> None:
    headers = {"x-session-id": "thread 7"}
    assert http.post("/v1/responses", json=SHORT | {"store": False}, headers=headers).status_code == 200
    (context,) = runtime.bind(LOCAL_APP).contexts()
    assert context.session == "thread 7"
    assert http.post("/v1/responses", json=SHORT, headers={"x-session-id": ""}).status_code == 400


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
