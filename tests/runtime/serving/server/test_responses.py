"""Responses through the official client: whole and streamed, stored, continued, shown and deleted."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.contexts.response_chains import ResponseChains
from agentrt.runtime.contexts.table import ContextTable
from agentrt.runtime.pool.responses.items import input_items
from tests.patience import until
from tests.runtime.conftest import Gate
from tests.runtime.contexts.memory_store import MemoryStore
from tests.runtime.serving.server.conftest import HELLO

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"type": "function", "name": "get_weather", "description": "Current weather.", "parameters": CITY}
SHORT: Any = {"model": "nano", "input": "Hello!", "temperature": 0, "max_output_tokens": 40}
REQUEST: Any = SHORT | {
    "input": "What is the weather in Ljubljana?",
    "tools": [TOOL],
    "max_output_tokens": 80,
}


def test_an_answer_is_that_of_the_runtime(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    expected = runtime.generate(HELLO, max_tokens=40)
    response: Any = client.responses.create(**SHORT)
    assert (response.status, response.output_text) == ("completed", expected.text)
    assert response.usage.input_tokens == expected.usage.prompt_tokens
    assert response.usage.output_tokens == expected.usage.completion_tokens
    assert response.model_dump()["store"] is True


NOT_OFFERED: Any = [
    {"type": "web_search", "external_web_access": False},
    {
        "type": "namespace",
        "name": "code",
        "description": "Code.",
        "tools": [{"type": "custom", "name": "exec"}],
    },
]
NAMESPACE: Any = {"type": "namespace", "name": "mcp__sky", "description": "The sky.", "tools": [TOOL]}


@pytest.mark.parametrize("offered", [[], [TOOL]])
def test_tools_that_the_model_is_not_offered(
    client: openai.OpenAI, processed: list[Any], offered: list[Any]
) -> None:
    response: Any = client.responses.create(**SHORT | {"tools": [*NOT_OFFERED, *offered]})
    expected: Any = client.responses.create(**SHORT | {"tools": offered})
    assert processed[0].prompt_token_ids == processed[1].prompt_token_ids
    assert [tool.name for tool in response.tools] == ["code", *(tool["name"] for tool in offered)]
    assert response.tools[1:] == expected.tools
    for choice in ({"type": "web_search"}, {"type": "function", "name": "exec"}):
        with pytest.raises(openai.BadRequestError, match="tool_choice"):
            client.responses.create(**SHORT | {"tools": [*NOT_OFFERED, TOOL], "tool_choice": choice})


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"type": "custom"}, "tools[2]"),
        (TOOL | {"name": ""}, "tools[2].name"),
        (NAMESPACE | {"name": ""}, "tools[2]"),
        (NAMESPACE | {"tools": 7}, "tools[2]"),
        (NAMESPACE | {"tools": [TOOL, TOOL | {"name": ""}]}, "tools[2].tools[1].name"),
        (NAMESPACE | {"tools": [TOOL, TOOL]}, "tools[2].tools[1].name"),
    ],
)
def test_a_wrong_tool_has_its_place_in_the_request(client: openai.OpenAI, wrong: Any, name: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**SHORT | {"tools": [*NOT_OFFERED, wrong]})
    assert caught.value.param == name


def test_an_answer_that_is_cut(client: openai.OpenAI) -> None:
    response: Any = client.responses.create(**SHORT | {"max_output_tokens": 5})
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_a_stream_has_an_event_for_each_step(client: openai.OpenAI) -> None:
    whole = client.responses.create(**SHORT)
    events: list[Any] = list(client.responses.create(**SHORT, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "completed"]
    assert set(kinds[4:-4]) == {"output_text.delta"}
    assert "".join(event.delta for event in events[4:-4]) == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage == whole.usage
    assert events[0].response.id == events[-1].response.id


def test_a_call_whole_and_streamed(client: openai.OpenAI) -> None:
    response: Any = client.responses.create(**REQUEST)
    (call,) = response.output
    assert (call.type, call.name, call.status) == ("function_call", "get_weather", "completed")
    assert json.loads(call.arguments) == {"city": "Ljubljana"}

    events: list[Any] = list(client.responses.create(**REQUEST, stream=True))
    written = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert len(written) > 1
    assert json.loads("".join(written)) == {"city": "Ljubljana"}
    (done,) = [event for event in events if event.type == "response.output_item.done"]
    assert (done.item.arguments, done.item.name) == ("".join(written), "get_weather")


@pytest.mark.parametrize("ended", [{"max_output_tokens": 12}, {"extra_body": {"stop": "Ljub"}}])
@pytest.mark.parametrize("background", [False, True])
def test_a_call_that_is_cut_is_incomplete_and_left_out_of_the_conversation(
    client: openai.OpenAI, http: httpx.Client, ended: dict[str, Any], background: bool
) -> None:
    cut: Any = REQUEST | {"tool_choice": "required"} | ended
    events: list[Any] = list(client.responses.create(**cut, stream=True, background=background))
    response = events[-1].response
    assert response.status == ("incomplete" if "max_output_tokens" in ended else "completed")
    (item,) = response.output
    assert (item.type, item.status) == ("function_call", "incomplete")
    written = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert item.arguments == "".join(written)
    with pytest.raises(json.JSONDecodeError):
        json.loads(item.arguments)
    (done,) = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == item
    assert client.responses.retrieve(response.id) == response
    assert conversations(http)[-1] == [REQUEST["input"]]
    continued: Any = client.responses.create(**SHORT, previous_response_id=response.id)
    asked, answered = ({"role": "user", "content": text} for text in (REQUEST["input"], SHORT["input"]))
    sent_again = client.responses.create(**SHORT | {"input": [asked, item.model_dump(), answered]})
    assert continued.output_text == sent_again.output_text
    assert continued.usage.input_tokens == sent_again.usage.input_tokens
    client.responses.delete(response.id)


@pytest.mark.parametrize("namespace", ["mcp__sky", "mcp__sky__"])
def test_a_call_in_a_namespace_is_sent_and_taken_back_by_its_two_names(
    client: openai.OpenAI, processed: list[Any], namespace: str
) -> None:
    other = TOOL | {"name": "get_time"}
    tools: Any = [other, NAMESPACE | {"name": namespace}]
    request: Any = REQUEST | {"tools": tools}
    request["tool_choice"] = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "get_weather", "namespace": namespace}],
    }
    whole = client.responses.create(**request)
    events: list[Any] = list(client.responses.create(**request, stream=True))
    names = [tool["function"]["name"] for tool in processed[-1].tool_choice.tools]
    assert names == ["mcp__sky__get_weather"]
    calls = [event.item for event in events if event.type.startswith("response.output_item.")]
    for call in (*calls, *whole.output, *events[-1].response.output):
        assert (call.type, call.name, call.namespace) == ("function_call", "get_weather", namespace)
    assert whole.tools[1].model_dump(exclude_none=True) == tools[1] | {"tools": [TOOL]}

    asked, sent = {"role": "user", "content": REQUEST["input"]}, whole.output[0].to_dict()
    output: Any = {"type": "function_call_output", "call_id": whole.output[0].call_id, "output": "12 C"}
    again: Any = REQUEST | {"tools": tools, "max_output_tokens": 1}
    client.responses.create(**again | {"input": [asked, sent, output | {"namespace": namespace}]})
    last = client.responses.create(**again | {"input": [output], "previous_response_id": whole.id})
    assert processed[-1].prompt_token_ids == processed[-2].prompt_token_ids
    items: list[Any] = list(client.responses.input_items.list(last.id, order="asc"))
    assert (items[1].name, items[1].namespace) == ("get_weather", namespace)
    kept = client.responses.create(**again | {"input": [asked, sent, output]})
    items = list(client.responses.input_items.list(kept.id, order="asc"))
    assert (items[1].name, items[1].namespace) == ("get_weather", namespace)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**again | {"input": [asked, sent | {"namespace": 7}, output]})
    assert caught.value.param == "input[1].namespace"


def test_input_items_become_chat_messages(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    messages = [
        {"role": "system", "content": "You are brief."},
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Who are you?"},
    ]
    expected = runtime.generate(messages, max_tokens=20)
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello!"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
        {"type": "message", "role": "user", "content": "Who are you?"},
    ]
    options = {"input": items, "instructions": "You are brief.", "max_output_tokens": 20}
    response: Any = client.responses.create(**SHORT | options)
    assert response.output_text == expected.text
    assert response.usage.input_tokens == expected.usage.prompt_tokens


def test_an_answer_held_to_a_schema(client: openai.OpenAI) -> None:
    schema = TOOL["parameters"] | {"properties": {"city": {"enum": ["a"]}}, "additionalProperties": False}
    wanted: Any = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    response = client.responses.create(**SHORT, text=wanted)
    assert json.loads(response.output_text) == {"city": "a"}


def test_logprobs(client: openai.OpenAI) -> None:
    body = SHORT | {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    response: Any = client.responses.create(**body)
    logprobs = response.output[0].content[0].logprobs
    assert "".join(entry.token for entry in logprobs).startswith(response.output_text)
    streamed: list[Any] = []
    for event in client.responses.create(**body, stream=True):
        if event.type == "response.output_text.delta":
            streamed += event.logprobs
    assert [entry.logprob for entry in streamed] == [entry.logprob for entry in logprobs][: len(streamed)]


def test_a_wrong_item_is_named_also_where_it_continues_a_response(client: openai.OpenAI) -> None:
    first = client.responses.create(**SHORT | {"max_output_tokens": 2})
    wrong: Any = [
        {"role": "user", "content": "And?"},
        {"type": "function_call", "name": "a", "arguments": "["},
    ]
    for more in ({}, {"instructions": "Be brief."}):
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(**SHORT | {"input": wrong}, previous_response_id=first.id, **more)
        assert caught.value.param == "input[1].arguments"


SYSTEM = "You help with notes, mail and the calendar."


def create(client: openai.OpenAI, text: Any, *, streamed: bool = False, **options: Any) -> Any:
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
    options: dict[str, Any] = {"tools": REQUEST["tools"], "max_output_tokens": 80}
    asked = create(client, REQUEST["input"], **options, streamed=streamed)
    (call,) = asked.output
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature_c": 12}'}
    following = options | {"previous_response_id": asked.id}
    answer = create(client, [output], **following, streamed=streamed)
    assert "12" in answer.output_text
    items: Any = [{"role": "user", "content": REQUEST["input"]}, call.model_dump(), output]
    whole = create(client, items, **options, store=False)
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
    third = create(client, "Who are you?", previous_response_id=first.id, instructions="Be brief.")
    messages.insert(0, {"role": "system", "content": "Be brief."})
    assert third.output_text == runtime.generate(messages, max_tokens=30).text


@pytest.mark.parametrize("streamed", [False, True])
def test_a_full_conversation_goes_on_where_truncation_is_auto(client: openai.OpenAI, streamed: bool) -> None:
    first = create(client, "word " * 600, max_output_tokens=2)
    assert first.truncation == "disabled"
    auto: Any = {"truncation": "auto", "streamed": streamed}
    second = create(client, "word " * 600, previous_response_id=first.id, **auto)
    assert (second.truncation, second.usage.input_tokens_details.truncated_messages) == ("auto", 2)
    third = create(client, "Who are you?", previous_response_id=second.id, **auto)
    assert third.usage.input_tokens_details.truncated_messages == 2
    assert third.usage.input_tokens_details.cached_tokens > 500
    assert len(client.responses.input_items.list(third.id).data) == 5, "what is stored is complete"


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
def test_a_stored_response_is_shown_and_deleted(
    client: openai.OpenAI, http: httpx.Client, streamed: bool
) -> None:
    response = create(client, "Hello!", metadata={"key": "value"}, streamed=streamed)
    assert client.responses.retrieve(response.id) == response
    path = f"/v1/responses/{response.id}"
    assert http.get(path, params={"stream": True}).status_code == 400
    following = create(client, "Who are you?", previous_response_id=response.id)
    assert http.delete(path).json() == {"id": response.id, "object": "response", "deleted": True}
    for use in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            use(response.id)
        assert caught.value.code == "response_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        create(client, "Hello!", previous_response_id=response.id)
    named = refused.value.code, refused.value.param
    assert named == ("previous_response_not_found", "previous_response_id")
    assert create(client, "And you?", previous_response_id=following.id).output_text


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


def test_another_apps_response_is_as_unknown_as_any(two_apps: list[httpx.Client]) -> None:
    one, two = two_apps
    foreign, unknown = one.post("/v1/responses", json=SHORT).json()["id"], "resp_" + "0" * 48
    for method, path in (("GET", "{}"), ("DELETE", "{}"), ("GET", "{}/input_items")):
        answers = [two.request(method, f"/v1/responses/{path}".format(id)) for id in (foreign, unknown)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(foreign, unknown) == answers[1].text
    following = SHORT | {"previous_response_id": foreign}
    assert two.post("/v1/responses", json=following).status_code == 400
    assert one.get(f"/v1/responses/{foreign}").status_code == 200


def texts(items: list[Any]) -> list[tuple[str, str]]:
    return [(item.role, "".join(part.text for part in item.content)) for item in items]


@pytest.fixture
def tool_loop(client: openai.OpenAI) -> list[Any]:
    """Two stored responses: one calls a tool, the other one has its output."""
    options: dict[str, Any] = {"tools": REQUEST["tools"], "max_output_tokens": 80}
    first = create(client, REQUEST["input"], **options)
    (call,) = first.output
    output = {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature_c": 12}'}
    return [first, create(client, [output], previous_response_id=first.id, **options)]


def test_the_input_is_the_conversation_before_the_answer(client: openai.OpenAI) -> None:
    parts = [{"type": "input_text", "text": "What is the "}, {"type": "input_text", "text": "weather?"}]
    asked: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    first = create(client, asked, instructions="You help.")
    said = [("system", "Be brief."), ("user", "What is the weather?")]
    assert texts(client.responses.input_items.list(first.id, order="asc").data) == said
    second = create(client, "And in Bergen?", previous_response_id=first.id)
    listed = client.responses.input_items.list(second.id).data  # the newest first, as from OpenAI
    assert texts(listed) == [
        ("user", "And in Bergen?"),
        ("assistant", first.output_text),
        *said[::-1],
    ]
    assert listed[1].id == first.output[0].id


def test_the_items_of_a_tool_loop_are_the_prompt(client: openai.OpenAI, tool_loop: list[Any]) -> None:
    first, second = tool_loop
    question, call, output = client.responses.input_items.list(second.id, order="asc").data
    assert (question.type, call.type, output.type) == ("message", "function_call", "function_call_output")
    assert call.model_dump(exclude_none=True) == first.output[0].model_dump(exclude_none=True)
    assert (output.call_id, output.output) == (call.call_id, '{"temperature_c": 12}')
    items: Any = [item.model_dump(exclude_none=True) for item in (question, call, output)]
    again = create(client, items, tools=REQUEST["tools"], max_output_tokens=80, store=False)
    assert again.output_text == second.output_text
    assert again.usage.input_tokens == second.usage.input_tokens


def test_pages_of_items(client: openai.OpenAI, http: httpx.Client, tool_loop: list[Any]) -> None:
    whole = list(client.responses.input_items.list(tool_loop[1].id, limit=1))
    assert [item.type for item in whole] == ["function_call_output", "function_call", "message"]
    path = f"/v1/responses/{tool_loop[1].id}/input_items"
    for wrong in ("limit=0", "limit=101", "limit=many", "order=up", "after=msg_1", "after="):
        response = http.get(f"{path}?{wrong}")
        param = response.json()["error"]["param"]
        assert (response.status_code, param) == (400, wrong.partition("=")[0])


def test_items_stay_the_same_whatever_is_continued_deleted_and_read_again() -> None:
    store = MemoryStore()
    chains = ResponseChains(ContextTable(9, store))

    def add(id: str, previous: str | None = None) -> None:
        before = None if previous is None else chains.find("a", previous)
        turn = chains.begin("a", chains.context_for("a", before))
        content = [{"type": "output_text", "text": f"said {id}"}]
        output = {"type": "message", "id": f"msg_{id}", "role": "assistant", "content": content}
        messages = [*[{"role": "user", "content": id}] * 2, {"role": "assistant", "content": f"said {id}"}]
        turn.commit(messages, 1, {"id": id, "output": [output]})

    def items(id: str) -> list[dict[str, Any]]:
        found = chains.find("a", id)
        return input_items(found)

    for id, previous in (("1", None), ("2", "1"), ("x", "1"), ("y", "x")):
        add(id, previous)
    texts = [item["content"][0]["text"] for item in items("y")]
    assert texts == ["1", "1", "said 1", "x", "x", "said x", "y", "y"]
    before = items("y")
    assert before[:5] == items("x")
    assert before[:3] == items("2")[:3]
    assert len({item["id"] for item in before}) == len(before), "equal messages are items of their own"
    for delete in ("x", "1", "2"):
        assert chains.delete("a", delete)
        assert items("y") == before
        chains = ResponseChains(ContextTable(9, store))
        assert items("y") == before
    assert chains.delete("a", "y")
    assert not store.contexts("a")
