"""``/v1/responses`` against OpenAI's types and Open Responses: fields, shapes, items by id, compaction."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import CompactedResponse, Response, ResponseItem, ResponseStreamEvent
from openai.types.responses.response_compact_params import ResponseCompactParams
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from agentrt.priority import PRIORITY_HEADER
from agentrt.runtime import LocalRuntime
from agentrt.runtime.request.request import Request
from agentrt.runtime.serving.server import compaction
from tests.runtime.serving.http.serving import Start
from tests.runtime.serving.server.test_responses import REQUEST, SHORT, TOOL

FUNCTION = {"type": "function", "name": "get_weather"}
SCHEMA = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
LOGPROBS = {"include": ["message.output_text.logprobs"]}

SERVED: dict[str, Any] = {
    "frequency_penalty": 0.5,
    "include": LOGPROBS["include"],
    "input": "Hello!",
    "instructions": "Be brief.",
    "max_output_tokens": 3,
    "metadata": {"a": "b"},
    "model": "nano",
    "parallel_tool_calls": False,
    "presence_penalty": 0.5,
    "previous_response_id": None,
    "service_tier": "flex",
    "store": False,
    "stream": False,
    "stream_options": {"include_obfuscation": True},
    "temperature": 0.5,
    "text": {"format": {"type": "json_object"}},
    "tool_choice": "none",
    "tools": [TOOL],
    "top_logprobs": 2,
    "top_p": 0.5,
    "truncation": "auto",
}
"""Fields that do what the documents say. Tests of their own show that they do."""
REFUSED: dict[str, list[Any]] = {
    "context_management": [[{"type": "compaction"}]],
    "conversation": ["conv_1", {"id": "conv_1"}],
    "include": [["x"], ["reasoning.encrypted_content", "x"]],
    "max_tool_calls": [1, 0],
    "moderation": [{"model": "omni-moderation-latest"}],
    "prompt": [{"id": "pmpt_1"}],
    "prompt_cache_options": [{"prewarm": True}],
    "stream_options": [{"include_obfuscation": "yes"}],
    "text": [{"verbosity": "loud"}],
    "top_logprobs": [2],
    "truncation": ["middle"],
}
"""Values without which the answer is another one, or which the documents do not know."""
HINTS: dict[str, tuple[Any, str]] = {
    "access_programs": ({"cyber": "standard"}, "no model here is kept from anybody"),
    "image": ({"context_compression": "enabled"}, "images are refused"),
    "include": (["reasoning.encrypted_content"], "no answer has a reasoning item"),
    "prompt_cache_key": ("k", "the prefix cache needs no key"),
    "prompt_cache_options": ({"mode": "implicit", "ttl": "30m"}, "the prefix cache decides by itself"),
    "prompt_cache_retention": ("24h", "the prefix cache decides by itself"),
    "reasoning": ({"effort": "low", "summary": "auto"}, "a model reasons as its template has it"),
    "safety_identifier": ("u", "nobody is watched"),
    "text": ({"verbosity": "low"}, "no model here is trained to be told"),
    "user": ("u", "the older form of the two above"),
}
"""A value that the answer does not depend on, and why it need not."""
ELSEWHERE = {"background"}
"""What has tests of its own."""
OPEN_RESPONSES = {
    "background", "frequency_penalty", "include", "input", "instructions", "max_output_tokens",
    "max_tool_calls", "metadata", "model", "parallel_tool_calls", "presence_penalty", "previous_response_id",
    "prompt_cache_key", "reasoning", "safety_identifier", "service_tier", "store", "stream", "stream_options",
    "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation",
}  # fmt: skip
"""The fields of a request in Open Responses of 2026-04-24. All but ``stream_options`` a response has, too."""
RESPONSE = OPEN_RESPONSES - {"include", "input", "stream", "stream_options"} | {
    "completed_at", "created_at", "error", "id", "incomplete_details", "object", "output", "status", "usage",
}  # fmt: skip
"""The fields that every response has in Open Responses, some of them null."""
EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ITEMS: TypeAdapter[Any] = TypeAdapter(ResponseItem)


def test_no_field_of_the_documents_is_ignored_silently() -> None:
    openai_fields = set(ResponseCreateParamsNonStreaming.__annotations__)
    assert openai_fields >= OPEN_RESPONSES - {"frequency_penalty", "presence_penalty"}
    assert SERVED.keys() | REFUSED.keys() | HINTS.keys() | ELSEWHERE == openai_fields | OPEN_RESPONSES
    compacted = {"input", "instructions", "model", "previous_response_id", "service_tier"}
    assert compacted | HINTS.keys() >= set(ResponseCompactParams.__annotations__)


@pytest.mark.parametrize("field", SERVED)
def test_a_served_field_is_accepted(http: httpx.Client, field: str) -> None:
    body = {"input": "Hello!", "max_output_tokens": 3, **LOGPROBS, field: SERVED[field]}
    answer = http.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("field", REFUSED)
def test_what_would_change_the_answer_is_refused_by_its_name(http: httpx.Client, field: str) -> None:
    for value in REFUSED[field]:
        answer = http.post("/v1/responses", json=SHORT | {field: value})
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
        assert error["param"].partition(".")[0].partition("[")[0] == field


@pytest.mark.parametrize("field", HINTS)
def test_a_hint_does_not_change_the_answer(http: httpx.Client, field: str) -> None:
    plain = http.post("/v1/responses", json=SHORT).json()
    hinted = http.post("/v1/responses", json=SHORT | {field: HINTS[field][0]})
    assert hinted.status_code == 200, hinted.text
    assert hinted.json()["output"][0]["content"] == plain["output"][0]["content"]


@pytest.mark.parametrize(
    "more", [{}, {"max_output_tokens": 2}, {"tools": [TOOL]}, {"text": {"format": SCHEMA}}]
)
def test_a_response_has_the_shape_of_both_documents(http: httpx.Client, more: dict[str, Any]) -> None:
    body = http.post("/v1/responses", json=SHORT | more).json()
    assert body.keys() == RESPONSE
    Response.model_validate(body)
    assert (body["completed_at"] is None) == (body["status"] == "incomplete")
    if body["completed_at"] is not None:
        assert body["completed_at"] >= body["created_at"]
    for tool in body["tools"]:
        assert tool == {"strict": None} | TOOL
    if body["text"]["format"]["type"] == "json_schema":
        assert body["text"]["format"] == SCHEMA | {"description": None, "strict": False}
    hints = {"prompt_cache_key": "k", "safety_identifier": "u", "presence_penalty": 0.5}
    shown = http.post("/v1/responses", json=SHORT | hints | {"frequency_penalty": 1}).json()
    assert shown | hints | {"frequency_penalty": 1} == shown


@pytest.mark.parametrize("request_body", [SHORT, REQUEST, SHORT | LOGPROBS | {"top_logprobs": 1}])
def test_events_have_the_shape_of_openais_and_end_with_done(http: httpx.Client, request_body: Any) -> None:
    answer = http.post("/v1/responses", json=request_body | {"stream": True})
    *events, done, after = answer.text.split("\n\n")
    assert (done, after) == ("data: [DONE]", "")
    for event in events:
        kind, data = event.splitlines()
        parsed = EVENTS.validate_json(data.removeprefix("data: "))
        assert kind == f"event: {parsed.type}"
    assert json.loads(events[-1].partition("data: ")[2])["response"].keys() == RESPONSE


def test_padded_deltas(http: httpx.Client) -> None:
    def deltas(**more: Any) -> list[Any]:
        text = http.post("/v1/responses", json=SHORT | {"stream": True, **more}).text
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        return [event for event in events if event["type"].endswith(".delta")]

    padded = deltas(stream_options={"include_obfuscation": True})
    plain = deltas(stream_options={"include_obfuscation": False})
    assert "".join(each["delta"] for each in padded) == "".join(each["delta"] for each in plain)
    assert not any("obfuscation" in each for each in plain + deltas())
    sizes = {len(json.dumps(each["delta"], ensure_ascii=False).encode() + each["obfuscation"].encode())
             for each in padded}  # fmt: skip
    assert {size % 32 for size in sizes} == {0}


def test_only_allowed_tools_are_offered(http: httpx.Client) -> None:
    other = TOOL | {"name": "send_mail"}
    choice = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "send_mail"}],
    }
    body = REQUEST | {"tools": [TOOL, other], "tool_choice": choice}
    answer = http.post("/v1/responses", json=body).json()
    assert {item["name"] for item in answer["output"]} == {"send_mail"}
    assert answer["tool_choice"] == choice
    assert [tool["name"] for tool in answer["tools"]] == ["get_weather", "send_mail"]
    auto = http.post("/v1/responses", json=body | {"tool_choice": choice | {"mode": "none"}}).json()
    assert [item["type"] for item in auto["output"]] == ["message"]
    mail = choice["tools"][0]
    wrong_tools: list[Any] = [
        [],
        [mail | {"name": "x"}],
        [{"type": "mcp"}],
        [3],
        [{"type": "function"}],
        None,
    ]
    for wrong in ({"mode": "any"}, *({"tools": tools} for tools in wrong_tools)):
        refused = http.post("/v1/responses", json=body | {"tool_choice": choice | wrong})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tool_choice")
    refused = http.post("/v1/responses", json=body | {"tools": [TOOL, other | {"parameters": 3}]})
    assert refused.json()["error"]["param"] == "tools[1].parameters"


MESSAGE = {"type": "message", "id": "msg_mine", "role": "user", "content": "Hello!"}
CALL = {"type": "function_call", "id": "fc_mine", "call_id": "c", "name": "get_weather", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "id": "fco_mine", "call_id": "c", "output": "12 C"}


def listed(http: httpx.Client, id: str) -> list[Any]:
    path = f"/v1/responses/{id}/input_items?order=asc&limit=100"
    items = http.get(path).raise_for_status().json()["data"]
    for item in items:
        ITEMS.validate_python(item)
    return items  # type: ignore[no-any-return]


def respond(http: httpx.Client, input: Any, **more: Any) -> Any:
    return http.post("/v1/responses", json=SHORT | {"input": input} | more).raise_for_status().json()


def test_ids_of_items_are_kept(http: httpx.Client) -> None:
    said = {"type": "message", "id": "msg_said", "role": "assistant", "content": "Let me look."}
    first = respond(http, [MESSAGE, said, CALL, OUTPUT])
    ids = ["msg_mine", "msg_said", "fc_mine", "fco_mine"]
    assert [item["id"] for item in listed(http, first["id"])] == ids
    # One that was there before would end every list that goes on behind it: it gets another id.
    again = respond(http, [MESSAGE, MESSAGE], previous_response_id=first["id"])
    seen = [item["id"] for item in listed(http, again["id"])]
    assert seen[:5] == [*ids, first["output"][0]["id"]]
    assert len(set(seen)) == len(seen) == 7
    for wrong in (7, "", "x" * 129, ["x"]):
        answer = http.post("/v1/responses", json=SHORT | {"input": [MESSAGE, MESSAGE | {"id": wrong}]})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input[1].id")
    assert respond(http, [MESSAGE | {"id": None}])["status"] == "completed"


def test_references_are_the_items_of_stored_responses(http: httpx.Client) -> None:
    first = respond(http, [MESSAGE, CALL, OUTPUT])
    (answer,) = first["output"]
    unnamed = respond(http, "What is the weather in Bergen?")
    unnamed_id = listed(http, unnamed["id"])[0]["id"]
    references = [
        {"type": "item_reference", "id": "msg_mine"},
        {"id": "fc_mine"},
        {"type": None, "id": "fco_mine"},
        {"type": "item_reference", "id": answer["id"]},
        {"type": "item_reference", "id": unnamed_id},
    ]
    by_reference = respond(http, references)
    text = {"role": "user", "content": "What is the weather in Bergen?"}
    whole = respond(http, [MESSAGE, CALL, OUTPUT, answer, text], store=False)
    assert by_reference["output"][0]["content"] == whole["output"][0]["content"]
    assert by_reference["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
    named = ["msg_mine", "fc_mine", "fco_mine", answer["id"], unnamed_id]
    assert [item["id"] for item in listed(http, by_reference["id"])] == named


def test_the_conversation_that_goes_on_has_the_item_before_all_others(http: httpx.Client) -> None:
    first = respond(http, [MESSAGE | {"content": "Red."}])
    respond(http, [MESSAGE | {"content": "Green."}])
    reference = [{"type": "item_reference", "id": "msg_mine"}]
    for previous, said in ((None, "Green."), (first["id"], "Red.")):
        more = respond(http, reference, previous_response_id=previous)
        assert listed(http, more["id"])[-1]["content"][0]["text"] == said
        http.delete(f"/v1/responses/{more['id']}")


def test_unknown_references_are_refused(two_apps: list[httpx.Client]) -> None:
    one, two = two_apps
    (foreign,) = respond(one, "Hello!")["output"]
    answers = []
    for id in (foreign["id"], "msg_" + "0" * 24, None, 7, ["x"]):
        item = {"type": "item_reference", "id": id}
        answer = two.post("/v1/responses", json=SHORT | {"input": [MESSAGE, item]})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input[1].id")
        answers.append(answer.text.replace(foreign["id"], "msg_" + "0" * 24))
    assert answers[0] == answers[1]
    many = two.post("/v1/responses", json=SHORT | {"input": [{"type": "item_reference", "id": "x"}] * 65})
    assert (many.status_code, many.json()["error"]["param"]) == (400, "input")


def test_no_input_at_all(http: httpx.Client) -> None:
    for body in ({}, {"input": None}):
        answer = http.post("/v1/responses", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")


def summary_in(item: Any) -> str:
    assert item["type"] == "compaction"
    _, _, encoded = item["encrypted_content"].partition(".")
    return base64.urlsafe_b64decode(encoded).decode()


def test_a_compaction_has_the_messages_of_the_user_and_a_summary(
    http: httpx.Client, client: openai.OpenAI, processed: list[Request]
) -> None:
    developer = {"role": "developer", "content": "Be kind."}
    first = respond(http, [developer, MESSAGE, CALL, OUTPUT])
    before = http.get("/v1/contexts").json()["data"]
    compacted = client.responses.compact(
        model="nano", previous_response_id=first["id"], input="Thanks!", instructions="Keep goals."
    )
    body = compacted.model_dump(exclude_none=True, warnings=False)
    assert body.keys() == {"id", "object", "created_at", "output", "usage"}
    assert body["object"] == "response.compaction"
    *messages, item = body["output"]
    CompactedResponse.model_validate(body | {"output": [item]})  # OpenAI's type does not have users' messages
    assert [(each["role"], each["content"][0]["text"]) for each in messages] == [
        ("system", "Be kind."), ("user", "Hello!"), ("user", "Thanks!"),
    ]  # fmt: skip
    assert messages[1]["id"] == "msg_mine"
    assert body["usage"]["input_tokens"] == len(processed[-1].prompt_token_ids)
    assert http.get("/v1/contexts").json()["data"] == before, "nothing is stored"

    going_on = respond(http, [*body["output"], {"role": "user", "content": "Who are you?"}])
    *_, summary, _ = listed(http, going_on["id"])
    assert (summary["id"], summary["role"]) == (item["id"], "assistant")
    assert summary["content"][0]["text"].endswith(summary_in(item))


def test_a_summary_is_what_the_model_says_of_the_conversation(
    http: httpx.Client, runtime: LocalRuntime
) -> None:
    compact = http.post(
        "/v1/responses/compact", json={"model": "nano", "input": [MESSAGE], "instructions": "Hi."}
    )
    said = summary_in(compact.json()["output"][-1])
    messages = [
        {"role": "system", "content": "Hi."},
        {"role": "user", "content": "Hello!"},
        {"role": "user", "content": compaction._REQUEST},
    ]
    assert said == runtime.generate(messages, max_tokens=1024).text


@pytest.mark.parametrize(
    "content", [None, 7, "gAAAAABpM0Yj-...=", "agentrt1.@", "agentrt1.gA==", "agentrt1.é"]
)
def test_a_compaction_of_another_server_is_refused(http: httpx.Client, content: Any) -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": content}
    answer = http.post("/v1/responses", json=SHORT | {"input": [MESSAGE, item]})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "input[1].encrypted_content")
    assert "POST /v1/responses/compact" in error["message"]


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": "word " * 5000}, "input"),
        ({"input": [MESSAGE, {"role": "wizard", "content": "x"}]}, "input[1].role"),
        ({"input": [{"type": "image_generation_call"}]}, "input[0]"),
        ({"input": [{"id": "msg_x"}]}, "input[0].id"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"instructions": 3}, "instructions"),
    ],
)
def test_what_cannot_be_compacted_is_named(http: httpx.Client, more: Any, param: str) -> None:
    answer = http.post("/v1/responses/compact", json={"model": "nano", "input": [MESSAGE], **more})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_a_compaction_has_a_priority_and_the_servers_bound(start: Start) -> None:
    url = f"{start(default_max_tokens=3).url}/v1/responses/compact"
    flex: Any = {"json": {"input": "Hello!", "service_tier": "flex"}}
    named: Any = {"json": {"input": "Hello!"}, "headers": {PRIORITY_HEADER: "proactive"}}
    for request in (flex, named):
        answer = httpx.post(url, **request).raise_for_status()
        assert answer.json()["usage"]["output_tokens"] == 3
        assert answer.headers[PRIORITY_HEADER] == "proactive"
