"""Messages through Anthropic's client: whole and streamed, with tools, counted, refused and cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import anthropic
import httpx
import pytest

from agentrt import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.request.prompt_encoder import PromptEncoder
from agentrt.runtime.serving.http.identity import Tokens
from agentrt.runtime.serving.http.streaming import ClosingStreamingResponse
from agentrt.runtime.serving.server.messages import _PingedResponse
from tests.documented_errors import is_error_of_messages
from tests.patience import in_event_loop
from tests.runtime.conftest import Gate
from tests.runtime.serving.http.serving import Running, Start
from tests.runtime.serving.server.conftest import HELLO, WEATHER

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"name": "get_weather", "description": "Current weather in a city.", "input_schema": CITY}
SHORT: Any = {"model": "nano", "messages": HELLO, "max_tokens": 40}
CALL: Any = {"model": "nano", "messages": WEATHER, "max_tokens": 80, "tools": [TOOL]}
PATH = "/v1/messages"


@pytest.fixture
def client(server: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


def fields(message: Any) -> dict[str, Any]:
    """A message without what is new in each: its id, and those of calls."""
    dumped: dict[str, Any] = message.model_dump()
    assert dumped.pop("id").startswith("msg_")
    for block in dumped["content"]:
        block.pop("id", None)
        block.pop("parsed_output", None)  # of the client's own streams
    return dumped


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def prompt_tokens(message: Any) -> int:
    return int(message.usage.input_tokens + message.usage.cache_read_input_tokens)


def both(client: anthropic.Anthropic, **request: Any) -> tuple[Any, list[Any]]:
    """The answer to a request, which is the same streamed, and the events of that."""
    client.messages.create(**request)  # what it caches is cached for both
    whole = client.messages.create(**request)
    with client.messages.stream(**request) as stream:
        events = list(stream)
        assert fields(stream.get_final_message()) == fields(whole)
    return whole, events


def test_an_answer_is_that_of_the_runtime(client: anthropic.Anthropic, runtime: LocalRuntime) -> None:
    expected = runtime.generate(HELLO, max_tokens=40)
    message, _ = both(client, **SHORT)
    (block,) = message.content
    assert (message.type, message.role, message.model) == ("message", "assistant", "nano")
    assert (block.type, block.text) == ("text", expected.text)
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert prompt_tokens(message) == expected.usage.prompt_tokens
    assert message.usage.output_tokens == expected.usage.completion_tokens
    assert message.usage.cache_creation_input_tokens == 0


def test_a_stream_has_an_event_for_each_step(http: httpx.Client, client: anthropic.Anthropic) -> None:
    whole = client.messages.create(**SHORT)
    (block,) = whole.content
    with http.stream("POST", PATH, json=SHORT | {"stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    names = [line.removeprefix("event: ") for line in lines[::2]]
    events = [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
    assert [event["type"] for event in events] == names
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[3:-3]) == {"content_block_delta"}
    assert {event["delta"]["type"] for event in events[3:-3]} == {"text_delta"}
    assert "".join(event["delta"]["text"] for event in events[3:-3]) == block.text
    started, ended = events[0]["message"]["usage"], events[-2]["usage"]
    assert started["input_tokens"] == prompt_tokens(whole)
    assert ended["input_tokens"] + ended["cache_read_input_tokens"] == prompt_tokens(whole)
    assert (started["output_tokens"], ended["output_tokens"]) == (0, whole.usage.output_tokens)


def test_a_stream_tokenizes_its_prompt_once(
    client: anthropic.Anthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[list[int]] = []
    encode = PromptEncoder.encode_messages

    def note(*arguments: Any) -> list[int]:
        rendered.append(encode(*arguments))
        return rendered[-1]

    monkeypatch.setattr(PromptEncoder, "encode_messages", note)
    with client.messages.stream(**CALL) as stream:
        (started,) = [event for event in stream if event.type == "message_start"]
    assert [len(tokens) for tokens in rendered] == [started.message.usage.input_tokens]


def test_a_stream_that_waits_for_its_answer_has_pings(
    http: httpx.Client, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrt.runtime.serving.server.messages._PING_S", 0.001)
    with http.stream("POST", PATH, json=SHORT | {"max_tokens": 2, "stream": True}) as response:
        lines = response.iter_lines()
        names: list[str] = []
        while len(names) < 5:  # no token is computed yet
            names += [line for line in [next(lines)] if line.startswith("event: ")]
        assert names == ["event: message_start", *["event: ping"] * 4]
        gate.open()
        assert [line for line in lines if line.startswith("event: ")][-1] == "event: message_stop"


def test_a_call_whole_and_streamed(client: anthropic.Anthropic) -> None:
    message, events = both(client, **CALL)
    (call,) = [block for block in message.content if block.type == "tool_use"]
    assert (call.name, call.input, message.stop_reason) == ("get_weather", {"city": "Ljubljana"}, "tool_use")
    parts = [event.partial_json for event in events if event.type == "input_json"]
    assert len(parts) > 1
    assert json.loads("".join(parts)) == {"city": "Ljubljana"}


def test_a_call_that_is_cut(client: anthropic.Anthropic) -> None:
    cut: Any = CALL | {"max_tokens": 8}
    whole = client.messages.create(**cut)
    assert (whole.content, whole.stop_reason) == ([], "max_tokens")
    with client.messages.stream(**cut) as stream:
        streamed = stream.get_final_message()
    assert [block.type for block in streamed.content] == ["tool_use"]
    assert (streamed.stop_reason, streamed.usage) == ("max_tokens", whole.usage)


def test_the_clients_own_tool_loop(client: anthropic.Anthropic, processed: list[Any]) -> None:
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        return f"12 C in {city}"

    runner = client.beta.messages.tool_runner(
        model="nano", max_tokens=80, messages=WEATHER, tools=[get_weather]
    )
    turns = list(runner)
    assert [turn.stop_reason for turn in turns] == ["tool_use", "end_turn"]
    assert "12 C" in turns[1].content[0].text  # type: ignore[union-attr]
    # It first asks for a conversation that the server holds, and then sends the whole one each time.
    first, second = (len(request.prompt_token_ids) for request in processed)
    assert second > first


def test_a_conversation_that_the_server_should_hold_is_refused_as_the_client_expects(
    client: anthropic.Anthropic,
) -> None:
    with pytest.raises(anthropic.BadRequestError, match="no message threads") as caught:
        client.beta.messages.create(**SHORT, thread={"type": "continue", "previous_message_id": "msg_1"})
    assert is_error_of_messages(caught.value.body)
    assert "details" in caught.value.body["error"]  # type: ignore[index,operator]


@pytest.mark.parametrize("before", [[], [{"role": "assistant", "content": "Hm."}, *WEATHER]])
def test_a_result_of_no_call_is_refused(client: anthropic.Anthropic, before: list[Any]) -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "12 C"}
    said: Any = [*WEATHER, *before, {"role": "user", "content": [result]}]
    named = rf"messages\[{len(said) - 1}\].content\[0\].tool_use_id: 'toolu_1' is no call"
    with pytest.raises(anthropic.BadRequestError, match=named):
        client.messages.create(**CALL | {"messages": said})


@pytest.mark.parametrize(
    ("choice", "calls"),
    [
        ({"type": "any"}, True),
        ({"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}, True),
        ({"type": "auto", "disable_parallel_tool_use": True}, False),
        ({"type": "none"}, False),
    ],
)
def test_the_choice_of_a_tool(
    client: anthropic.Anthropic, processed: list[Any], choice: Any, calls: bool
) -> None:
    message = client.messages.create(**SHORT, tools=[TOOL], tool_choice=choice)
    assert any(block.type == "tool_use" for block in message.content) is calls
    made = processed[-1].tool_choice
    assert (made is None) is (choice["type"] == "none")
    assert made is None or made.required is calls
    assert made is None or made.parallel is not choice.get("disable_parallel_tool_use", False)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_tool_loop(client: anthropic.Anthropic, in_blocks: bool) -> None:
    first = client.messages.create(**CALL)
    (call,) = [block for block in first.content if block.type == "tool_use"]
    output: Any = '{"temperature_c": 12}'
    if in_blocks:
        output = [text(output) | {"cache_control": {"type": "ephemeral"}}]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": output}
    turn = [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    answer, _ = both(client, **CALL | {"messages": [*WEATHER, *turn]})
    assert answer.stop_reason == "end_turn"
    assert "12" in answer.content[0].text


def test_what_the_model_is_shown(
    client: anthropic.Anthropic, runtime: LocalRuntime, processed: list[Any]
) -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    calls = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "get_weather", "input": {"n": n}} for n in (1, 2)
    ]
    messages = [
        {"role": "user", "content": [text("Hello!"), text("You?") | cached]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "redacted_thinking", "data": "x"},
                text("I look."),
                *calls,
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_2"},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "not there", "is_error": True},
                text("Go on."),
            ],
        },
        {"role": "system", "content": "The user is in a hurry."},
    ]
    system = [text("Be nice."), text("Be brief.") | cached]
    made = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["input"]}}
        for call in calls
    ]
    shown = [
        {"role": "system", "content": "Be nice.\nBe brief."},
        {"role": "user", "content": "Hello!\nYou?"},
        {"role": "assistant", "content": "I look.", "tool_calls": made},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "Error: not there"},
        {"role": "tool", "tool_call_id": "toolu_2", "content": ""},
        {"role": "user", "content": "Go on."},
        {"role": "system", "content": "The user is in a hurry."},
    ]
    described = {"name": TOOL["name"], "description": TOOL["description"], "parameters": CITY}
    tools = [{"type": "function", "function": described}]
    runtime.generate(shown, tools=tools, max_tokens=1)
    expected = processed[-1].prompt_token_ids
    request: Any = {"model": "nano", "system": system, "messages": messages, "tools": [TOOL | cached]}
    answer = client.messages.create(
        **request, max_tokens=1, thinking={"type": "disabled"}, metadata={"user_id": "someone"}
    )
    assert processed[-1].prompt_token_ids == expected
    counted = client.messages.count_tokens(**request).input_tokens
    assert counted == prompt_tokens(answer) == len(expected)
    without = client.messages.count_tokens(**request, tool_choice={"type": "none"}).input_tokens
    assert without < counted


def test_sampling_priority_and_session_are_those_of_the_runtime(
    client: anthropic.Anthropic, processed: list[Any]
) -> None:
    sampling: Any = {"temperature": 0.7, "top_p": 0.9, "top_k": 20}
    request = SHORT | {"max_tokens": 2, "service_tier": "standard_only"}
    headers = {"x-agentrt-priority": "proactive", "x-session-id": "mine"}
    client.messages.create(**request, extra_body=sampling, extra_headers=headers)  # it has no such arguments
    assert (processed[-1].priority, processed[-1].session) == (Priority.PROACTIVE, "mine")
    params = processed[-1].sampling_params
    assert {name: getattr(params, name) for name in sampling} == sampling


def test_a_stop_sequence(client: anthropic.Anthropic, runtime: LocalRuntime) -> None:
    whole = runtime.generate(HELLO, max_tokens=40).text
    stop = whole[6:9]
    message, _ = both(client, **SHORT, stop_sequences=["never said", stop])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert message.content[0].text == whole[: whole.index(stop)]


def test_an_answer_that_is_cut(client: anthropic.Anthropic) -> None:
    message, _ = both(client, **SHORT | {"max_tokens": 5})
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 5)


def test_a_second_turn_reads_the_first_from_the_cache(client: anthropic.Anthropic) -> None:
    question = {"role": "user", "content": "Tell me about the cache of a second turn. " * 8}
    request: Any = SHORT | {"messages": [question]}
    first = client.messages.create(**request)
    turn = [question, {"role": "assistant", "content": first.content}, {"role": "user", "content": "Go on."}]
    second = client.messages.create(**request | {"messages": turn})
    assert second.usage.cache_read_input_tokens > first.usage.cache_read_input_tokens
    counted = client.messages.count_tokens(model="nano", messages=turn)  # type: ignore[arg-type]
    assert prompt_tokens(second) == counted.input_tokens


def test_a_prompt_that_is_too_long_is_counted(client: anthropic.Anthropic, runtime: LocalRuntime) -> None:
    messages: Any = [{"role": "user", "content": "word " * 20_000}]
    counted = client.messages.count_tokens(model="nano", messages=messages).input_tokens
    assert counted == runtime.count_prompt_tokens(messages) > runtime.context_length


@in_event_loop
async def test_pings_come_between_the_parts_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrt.runtime.serving.server.messages._PING_S", 0)
    ping, pinged = b'event: ping\ndata: {"type":"ping"}\n\n', asyncio.Event()
    sent, sending = list[Any](), list[Any]()

    async def give_way() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def send(message: Any) -> None:
        sending.append(message)
        sent.append(message.get("body"))
        await give_way()
        assert sending == [message]
        sending.clear()
        if message.get("body") == ping:
            pinged.set()

    async def events() -> AsyncIterator[bytes]:
        for part in (b"a", b"b"):
            await pinged.wait()
            pinged.clear()
            yield part

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    stream = ClosingStreamingResponse(events(), give_way)
    await _PingedResponse(stream)(scope, None, send)  # type: ignore[arg-type]
    assert [body for body in sent if body != ping] == [None, b"a", b"b", b""]
    assert (sent[1], sent[-1]) == (ping, b"")


def test_models_in_anthropics_form(client: anthropic.Anthropic, runtime: LocalRuntime) -> None:
    page = client.models.list()
    (model,) = page.data
    assert (page.first_id, page.last_id, page.has_more) == ("nano", "nano", False)
    assert (model.id, model.type, model.display_name) == ("nano", "model", "nano")
    assert (model.max_input_tokens, model.lifecycle) == (runtime.context_length, "active")
    assert model.created_at.utcoffset() == timedelta(0)
    assert client.models.retrieve("nano") == model
    with pytest.raises(anthropic.NotFoundError, match="'none' is not served here") as caught:
        client.models.retrieve("none")
    assert is_error_of_messages(caught.value.body)


def test_tokens_in_either_header(start: Start) -> None:
    token = "t" * 20
    server = start(tokens=Tokens([("mine", token)]))

    def ask(**headers: str) -> int:
        with anthropic.Anthropic(base_url=server.url, max_retries=0, **headers) as client:  # type: ignore[arg-type]
            return len(client.messages.create(**SHORT | {"max_tokens": 2}).content)

    assert ask(api_key=token) == ask(auth_token=token) == 1
    with pytest.raises(anthropic.AuthenticationError, match="ANTHROPIC_AUTH_TOKEN") as caught:
        ask(api_key="wrong")
    assert caught.value.type == "authentication_error"


INVALID = "invalid_request_error"
REFUSED = [
    ({"model": "none"}, 404, "not_found_error", "the model 'none' is not served here"),
    ({"model": None}, 400, INVALID, "model: "),
    ({"messages": []}, 400, INVALID, "messages: is empty"),
    ({"messages": [{"role": "tool", "content": "x"}]}, 400, INVALID, "messages[0].role: "),
    (
        {"messages": [*HELLO, {"role": "assistant", "content": "{"}]},
        400,
        "invalid_request_error",
        "messages: ",
    ),
    ({"messages": [{"role": "user", "content": " "}]}, 400, INVALID, "messages[0].content: "),
    ({"messages": [{"role": "user", "content": "word " * 20_000}]}, 400, INVALID, "too long"),
    ({"messages": [{"role": "user", "content": "x" * 9_000_000}]}, 413, "request_too_large", "bytes"),
    ({"max_tokens": 0}, 400, INVALID, "max_tokens: "),
    ({"temperature": 3}, 400, INVALID, "temperature: "),
    ({"stop_sequences": [""]}, 400, INVALID, "stop_sequences: "),
    ({"tools": [{"type": "web_search_20250305"}]}, 400, INVALID, "'web_search_20250305'"),
    ({"tools": [TOOL | {"name": ""}]}, 400, INVALID, "tools[0].name: "),
    ({"tools": [TOOL | {"input_schema": []}]}, 400, INVALID, "tools[0].input_schema: "),
    ({"tool_choice": {"type": "any"}}, 400, INVALID, "tool_choice: "),
    ({"tool_choice": {"type": "tool"}}, 400, INVALID, "tool_choice.name: "),
    ({"thinking": {"type": "enabled", "budget_tokens": 9}}, 400, INVALID, "thinking: "),
    ({"mcp_servers": [{"type": "url"}]}, 400, INVALID, "mcp_servers: "),
    ({"container": "x"}, 400, INVALID, "container: "),
    ({"output_config": {"format": {}, "effort": "low"}}, 200, "", ""),
    ({"output_config": {"format": {"a": 1}}}, 400, INVALID, "output_config.format: "),
]


@pytest.mark.parametrize(("changed", "status", "kind", "says"), REFUSED)
def test_what_is_refused(http: httpx.Client, changed: Any, status: int, kind: str, says: str) -> None:
    for path in (PATH, f"{PATH}/count_tokens"):
        if path != PATH and changed.keys() & {"max_tokens", "temperature", "stop_sequences"}:
            continue
        if path != PATH and "tool_choice" in changed:
            continue
        if path != PATH and says == "too long":
            continue
        response = http.post(path, json=SHORT | {"max_tokens": 2} | changed)
        assert response.status_code == status, response.text
        if status != 200:
            body = response.json()
            assert is_error_of_messages(body), body
            assert body["error"]["type"] == kind
            assert says in body["error"]["message"]


@pytest.mark.parametrize("kind", ["image", "document", "search_result", "server_tool_use", ["text"]])
@pytest.mark.parametrize("place", ["user", "assistant", "tool_result", "system"])
def test_blocks_that_are_not_served(http: httpx.Client, kind: Any, place: str) -> None:
    block = {"type": kind, "source": {"type": "text", "data": "x"}}
    said = text("x")
    before: list[Any] = []
    if place == "tool_result":
        block = {"type": "tool_result", "tool_use_id": "x", "content": [said, block]}
        call = {"type": "tool_use", "id": "x", "name": "look", "input": {}}
        before = [{"role": "assistant", "content": [call]}]
    message = {"role": "assistant" if place == "assistant" else "user", "content": [said, block]}
    changed = {"system": [said, block]} if place == "system" else {"messages": [*before, message, *HELLO]}
    response = http.post(PATH, json=SHORT | changed)
    name = {"system": "system[1]", "tool_result": "messages[1].content[1].content[1]"}
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(f"{name.get(place, 'messages[0].content[1]')}: ")
    assert f"{kind}" in response.json()["error"]["message"]


def test_other_routes_have_openais_errors(http: httpx.Client) -> None:
    error = http.post("/v1/messages/batches", json={}).json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert http.get(PATH).json()["error"]["type"] == "invalid_request_error"


def test_a_stream_that_fails_ends_with_an_error_event(
    client: anthropic.Anthropic, runtime: LocalRuntime, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def ask() -> None:
        for event in client.messages.create(**SHORT, stream=True):
            seen.append(event.type)

    def fail(*_: Any) -> Any:
        raise RuntimeError("secret detail")

    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask)
        gate.arrived()
        monkeypatch.setattr("agentrt.runtime.serving.server.messages._stop_of", fail)
        gate.open()
        with pytest.raises(anthropic.APIStatusError, match="the server failed") as caught:
            asked.result(60)
    assert seen[0] == "message_start"
    assert caught.value.body["error"]["type"] == "api_error"  # type: ignore[index]


def test_a_call_answered_by_the_tool_cache(http: httpx.Client, gate: Gate) -> None:
    with http.stream("POST", PATH, json=CALL | {"stream": True}) as response:
        lines = (line for line in response.iter_lines() if line.startswith("data: "))
        id = json.loads(next(lines)[6:])["message"]["id"]
        output = {"name": "get_weather", "params": {"city": "Ljubljana"}, "output": "12 C, rain"}
        answer = httpx.post(f"{http.base_url}/v1/cache-tool-output/{id}", json=[output])
        assert answer.json() == {"cached": 1}
        gate.open()
        events = [json.loads(line[6:]) for line in lines]
    blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    call, result = blocks[-3:-1]
    assert result == {"type": "tool_result", "tool_use_id": call["id"], "content": "12 C, rain"}
    assert (blocks[-1]["type"], events[-2]["delta"]["stop_reason"]) == ("text", "end_turn")


def test_an_answered_message_is_taken_back_as_it_came(
    client: anthropic.Anthropic, http: httpx.Client, gate: Gate, runtime: LocalRuntime, processed: list[Any]
) -> None:
    with client.messages.stream(**CALL) as stream:
        events = iter(stream)
        id = next(event.message.id for event in events if event.type == "message_start")
        output = {"name": "get_weather", "params": {"city": "Ljubljana"}, "output": "12 C, rain"}
        assert http.post(f"/v1/cache-tool-output/{id}", json=[output]).json() == {"cached": 1}
        gate.open()
        _ = list(events)
        content = [block.model_dump() for block in stream.get_final_message().content]
    call, result, said = content[-3:]
    assert [each["type"] for each in (call, result, said)] == ["tool_use", "tool_result", "text"]
    again: Any = CALL | {
        "messages": [*WEATHER, {"role": "assistant", "content": content}, *HELLO],
        "max_tokens": 1,
    }
    client.messages.create(**again)
    function = {"name": call["name"], "arguments": call["input"]}
    made = [{"id": call["id"], "type": "function", "function": function}]
    before = "".join(block["text"] for block in content[:-3])
    turns = [
        *WEATHER,
        {"role": "assistant", "content": before, "tool_calls": made},
        {"role": "tool", "tool_call_id": call["id"], "content": "12 C, rain"},
        {"role": "assistant", "content": said["text"]},
        *HELLO,
    ]
    described = {"name": TOOL["name"], "description": TOOL["description"], "parameters": CITY}
    runtime.generate(turns, tools=[{"type": "function", "function": described}], max_tokens=1)
    assert processed[-2].prompt_token_ids == processed[-1].prompt_token_ids
    ended = again | {"messages": again["messages"][:-1]}
    for place, sent in (("messages", ended), ("messages[1].content[0].tool_use_id", again)):
        response = http.post(PATH, json=sent)
        assert response.status_code == 400
        assert response.json()["error"]["message"].startswith(f"{place}: ")
        content[:] = [result, call, said]
