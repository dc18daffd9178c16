"""Background responses through the official client: queued, run, read again, cancelled, and resumed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import LocalRuntime, ModelPool, RuntimeConfig
from agentrt.runtime.pool.background.conditions import BackgroundConditions
from agentrt.runtime.pool.background.config import BackgroundConfig
from agentrt.runtime.pool.background.job import Job
from agentrt.runtime.pool.background.service import BackgroundService
from agentrt.runtime.pool.responses.builder import ResponseBuilder
from agentrt.runtime.serving.server import ServerConfig
from agentrt.runtime.serving.server.background import BackgroundResponses
from agentrt.runtime.serving.server.metrics import Metrics
from agentrt.runtime.serving.server.server_state import ServerState
from tests.patience import PATIENCE_S, in_event_loop, until
from tests.runtime.conftest import Gate, Hold
from tests.runtime.serving.server.conftest import ANY_LOAD, running
from tests.runtime.serving.server.test_responses import REQUEST, SHORT

QUEUED: Any = SHORT | {"background": True}
LONG: Any = QUEUED | {"extra_body": {"ignore_eos": True}, "max_output_tokens": 60}


def ended(client: openai.OpenAI, id: str) -> Any:
    until(lambda: client.responses.retrieve(id).status not in ("queued", "in_progress"))
    return client.responses.retrieve(id)


def read(client: openai.OpenAI, id: str, after: int | None = None) -> list[Any]:
    given: Any = {} if after is None else {"starting_after": after}
    return list(client.responses.retrieve(id, stream=True, **given))


def test_a_response_is_queued_and_then_that_of_the_foreground(client: openai.OpenAI) -> None:
    foreground = client.responses.create(**SHORT)
    queued: Any = client.responses.create(**QUEUED)
    assert (queued.status, queued.background, queued.output) == ("queued", True, [])
    response = ended(client, queued.id)
    assert (response.status, response.output_text) == ("completed", foreground.output_text)
    assert response.created_at == queued.created_at
    assert response.usage.output_tokens == foreground.usage.output_tokens
    following: Any = client.responses.create(**SHORT, previous_response_id=queued.id)
    assert following.status == "completed"
    called = ended(client, client.responses.create(**REQUEST, background=True).id)
    (call,) = [item for item in called.output if item.type == "function_call"]
    (expected,) = [item for item in client.responses.create(**REQUEST).output if item.type == "function_call"]
    assert (call.name, call.arguments) == (expected.name, expected.arguments)


def test_its_stream_is_read_from_any_event_on_and_ends_without_its_client(
    client: openai.OpenAI, http: httpx.Client
) -> None:
    with client.responses.create(**QUEUED, stream=True) as stream:
        events = iter(stream)
        first = [next(events) for _ in range(5)]
    id = first[0].response.id
    whole = read(client, id)
    kinds = [event.type.removeprefix("response.") for event in whole]
    assert kinds[:4] == ["created", "queued", "in_progress", "output_item.added"]
    assert kinds[-1] == "completed"
    assert [event.sequence_number for event in whole] == list(range(len(whole)))
    assert whole[:5] == first
    assert read(client, id, first[-1].sequence_number) == whole[5:]
    assert read(client, id, whole[-1].sequence_number) == []
    for after in (whole[-1].sequence_number, 1000):
        rest = http.get(f"/v1/responses/{id}", params={"stream": True, "starting_after": after})
        assert (rest.status_code, rest.text) == (200, "data: [DONE]\n\n")
    text = "".join(event.delta for event in whole if event.type == "response.output_text.delta")
    assert text == whole[-1].response.output_text == client.responses.retrieve(id).output_text


def test_what_waits_has_a_place_and_what_runs_is_not_continued(
    client: openai.OpenAI, http: httpx.Client, gate: Gate
) -> None:
    ids = [client.responses.create(**LONG).id for _ in range(6)]
    gate.arrived()
    waiting: Any = client.responses.retrieve(ids[5])
    assert waiting.status == "queued"
    assert waiting.queue["position"] == waiting.queue["position_at_most"] == 1
    assert waiting.queue["waits_for"] is None
    with pytest.raises(openai.ConflictError, match="is not complete"):
        client.responses.create(**SHORT, previous_response_id=ids[0])
    listed = http.get("/v1/responses", params={"limit": 2}).json()
    assert [each["id"] for each in listed["data"]] == [ids[5], ids[4]]
    assert listed["has_more"]
    assert client.responses.cancel(ids[5]).status == "cancelled"
    gate.allow(12)
    until(lambda: len(read_now(client, ids[0])) > 6)
    begun: Any = client.responses.retrieve(ids[0])
    (item,) = begun.output
    assert (begun.status, item.status, item.role) == ("in_progress", "in_progress", "assistant")
    reading = client.responses.retrieve(ids[0], stream=True)
    gate.open()
    cut: Any = client.responses.cancel(ids[0])
    assert cut.status == "cancelled"
    assert cut.output[0].status == "incomplete"
    events: list[Any] = list(reading)
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == cut.output_text
    assert begun.output_text != ""
    assert cut.output_text.startswith(begun.output_text)
    assert (events[-1].type, events[-1].response) == ("response.incomplete", cut)
    (queued,) = read(client, ids[5])[2:]
    assert (queued.type, queued.response.status) == ("response.incomplete", "cancelled")
    assert client.responses.cancel(ids[0]) == cut
    reading = client.responses.retrieve(ids[1], stream=True)
    client.responses.delete(ids[1])
    assert list(reading)[-1].type == "response.incomplete"
    for id in ids[2:5]:
        assert ended(client, id).status == "incomplete"
        client.responses.delete(id)
    for id in ids[1:5]:
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(id)


def read_now(client: openai.OpenAI, id: str) -> list[Any]:
    """Return the events so far, of which the last may not be complete."""
    found = []
    with client.responses.retrieve(id, stream=True) as stream:
        began = time.monotonic()
        for event in stream:
            found.append(event)
            if len(found) > 6 or time.monotonic() - began > 1:
                break
    return found


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"store": False}, "store"),
        ({"service_tier": "priority"}, "service_tier"),
        ({"extra_body": {"priority": 0}, "service_tier": "flex"}, "priority"),
        ({"extra_headers": {"X-AgentRT-Priority": "reactive"}}, "x-agentrt-priority"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"input": [{"role": "user", "content": 1}]}, "input[0].content"),
        ({"input": "word " * 20_000}, "input"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
def test_what_cannot_be_answered_is_refused_at_once(
    client: openai.OpenAI, wrong: dict[str, Any], field: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**QUEUED | wrong)
    assert refused.value.param == field


def test_responses_of_others_are_not_found(two_apps: list[httpx.Client]) -> None:
    one, two = two_apps
    id = one.post("/v1/responses", json=QUEUED).json()["id"]
    assert two.get("/v1/responses").json()["data"] == []
    for method, path in (("GET", ""), ("POST", "/cancel"), ("DELETE", "")):
        assert two.request(method, f"/v1/responses/{id}{path}").status_code == 404
    assert one.delete(f"/v1/responses/{id}").status_code == 200
    assert one.post(f"/v1/responses/{id}/cancel").status_code == 404


@contextmanager
def client_with(runtime: LocalRuntime, background: BackgroundConfig) -> Iterator[httpx.Client]:
    """A client of a server whose background work has these settings."""
    with (
        running(runtime, background=background) as server,
        httpx.Client(base_url=server.url, timeout=60) as http,
    ):
        yield http


def test_an_app_has_so_many(runtime: LocalRuntime, gate: Gate) -> None:
    few = BackgroundConfig(jobs_per_app=1, conditions=BackgroundConditions(max_other_load=None))
    with client_with(runtime, few) as http:
        id = http.post("/v1/responses", json=QUEUED).json()["id"]
        refused = http.post("/v1/responses", json=QUEUED)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "job_quota_exceeded")
        assert refused.headers["x-should-retry"] == "false"
        gate.open()
        http.post(f"/v1/responses/{id}/cancel")
        assert http.post("/v1/responses", json=QUEUED).status_code == 200


@pytest.mark.parametrize(
    ("limit", "code"),
    [("seconds_per_app", "job_seconds_quota_exceeded"), ("bytes_per_app", "job_bytes_quota_exceeded")],
)
def test_each_quota_has_a_code_of_its_own(runtime: LocalRuntime, limit: str, code: str) -> None:
    most = {"seconds_per_app": 1e-9, "bytes_per_app": len(httpx.Request("POST", "/", json=QUEUED).content)}
    few = ANY_LOAD.model_copy(update={limit: most[limit]})
    with client_with(runtime, few) as http:
        id = http.post("/v1/responses", json=QUEUED).json()["id"]
        until(lambda: shown(http, id) == "completed")
        refused = http.post("/v1/responses", json=QUEUED)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, code)


@pytest.mark.parametrize("cancelled", [False, True])
def test_events_that_are_kept_no_longer_are_refused(runtime: LocalRuntime, cancelled: bool) -> None:
    short = ANY_LOAD.model_copy(update={"events_s": 1e-9})
    with client_with(runtime, short) as http:
        id = http.post("/v1/responses", json=QUEUED).json()["id"]
        if cancelled:
            http.post(f"/v1/responses/{id}/cancel")
        until(lambda: shown(http, id) in ("completed", "cancelled"))
        http.get("/v1/responses")
        refused = http.get(f"/v1/responses/{id}", params={"stream": True})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "stream")
        assert shown(http, id) in ("completed", "cancelled")


@pytest.mark.parametrize("which", ["/v1/contexts", "/v1/contexts/{id}"])
def test_what_is_deleted_of_an_app_is_not_kept_as_a_job(two_apps: list[httpx.Client], which: str) -> None:
    one, two = two_apps
    ids = [client.post("/v1/responses", json=QUEUED).json()["id"] for client in two_apps]
    for client, id in zip(two_apps, ids, strict=True):
        until(lambda client=client, id=id: shown(client, id) == "completed")
    context = one.get("/v1/contexts").json()["data"][0]["id"]
    assert one.delete(which.format(id=context)).status_code == 200
    until(lambda: shown(one, ids[0]) is None)
    assert one.get("/v1/responses").json()["data"] == []
    assert shown(two, ids[1]) == "completed"
    two.delete("/v1/contexts")


def shown(client: httpx.Client, id: str) -> str | None:
    """Return the status of a response; None if there is none."""
    status: str | None = client.get(f"/v1/responses/{id}").json().get("status")
    return status


def test_one_that_waits_for_the_machine_says_for_what(runtime: LocalRuntime) -> None:
    never = BackgroundConfig(conditions=BackgroundConditions(max_other_load=1e-9))
    with client_with(runtime, never) as http:
        id = http.post("/v1/responses", json=QUEUED).json()["id"]
        body = http.get(f"/v1/responses/{id}").json()
        assert body["status"] == "queued"
        assert body["queue"]["waits_for"]["code"] in ("measuring", "other_load")
        assert body["queue"]["done_at"] is None


def test_what_one_waits_to_continue_is_not_deleted_unless_with_everything(
    client: openai.OpenAI, http: httpx.Client, runtime: LocalRuntime, hold: Hold
) -> None:
    before: Any = client.responses.create(**SHORT)
    context = http.get("/v1/contexts").json()["data"][0]["id"]
    gate = hold(runtime)
    ids = [client.responses.create(**LONG).id for _ in range(4)]
    late, other = (client.responses.create(**QUEUED, previous_response_id=before.id).id for _ in range(2))
    with pytest.raises(openai.ConflictError, match=f"{late}.* continues it"):
        client.responses.delete(before.id)
    client.responses.cancel(other)
    assert http.delete(f"/v1/contexts/{context}").status_code == 200
    gate.open()
    failed = ended(client, late)
    assert failed.status == "failed"
    assert "was deleted" in failed.error.message
    assert read(client, late)[-1].type == "response.failed"
    for id in (*ids, late, other):
        client.responses.delete(id)


@pytest.mark.parametrize("begun", ["", "half", "other"])
@in_event_loop
async def test_an_answer_goes_on_where_it_was_unless_it_is_another(runtime: LocalRuntime, begun: str) -> None:
    """What a process that ended has sent is verified, not sent again."""
    pool = ModelPool.of(runtime)
    state = ServerState(pool, ServerConfig(), Metrics(pool))
    config = BackgroundConfig(conditions=BackgroundConditions(max_other_load=None))
    responses = BackgroundResponses(state, config)
    request = {"body": SHORT | {"background": True}, "session": None, "seed": 1}

    def job(number: int) -> Job:
        made = Job(f"resp_{number}", "local", pool.models[0].name, request, 1.0)
        made.add([{"type": f"response.{kind}"} for kind in ("created", "queued")])
        return made

    async with responses:
        await responses.queue.submit(whole := job(1))
        expected = [event async for event in responses.queue.events(whole)]
        resumed = job(2)
        answer = "".join(event.get("delta", "") for event in expected if "text.delta" in event["type"])
        sent = {"": "", "half": answer[: len(answer) // 2], "other": "Zebra"}[begun]
        if sent:
            resumed.add([{"type": "response.in_progress"}])
            resumed.add([{"type": "response.output_item.added", "item": {"type": "message"}}])
            resumed.add([{"type": "response.content_part.added"}])
            resumed.add([{"type": "response.output_text.delta", "delta": sent}], sent)
            resumed.add([{"type": "response.output_item.added", "item": {"type": "function_call"}}])
        await responses.queue.submit(resumed)
        async for _ in responses.queue.events(resumed):
            pass
        events = [event async for event in responses.queue.events(resumed)]
    assert resumed.result is not None
    assert "".join(event["delta"] for event in events if "text.delta" in event["type"]) == answer
    assert resumed.result["output"][0]["content"][0]["text"] == answer
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    accepted = [event for event in events if event["type"] == "response.output_text.delta"]
    assert accepted[0]["delta"] == (sent if begun == "half" else accepted[0]["delta"])


@pytest.mark.parametrize("asked", [SHORT, REQUEST], ids=["text", "call"])
@pytest.mark.parametrize("kept", ["begun", "half"])
@in_event_loop
async def test_a_stream_has_its_end_where_only_the_response_was_stored(
    runtime: LocalRuntime, asked: Any, kept: str
) -> None:
    """The process ended behind the record of the response, and before that of its last events."""
    pool = ModelPool.of(runtime)
    responses = BackgroundResponses(ServerState(pool, ServerConfig(), Metrics(pool)), ANY_LOAD)
    request = {"body": asked | {"background": True}, "session": None, "seed": 1}

    def job() -> Job:
        return Job(f"resp_{asked is SHORT}_{kept}", "local", pool.models[0].name, request, 1.0)

    async with responses:
        await responses.queue.submit(first := job())
        whole = [event async for event in responses.queue.events(first)]
        await responses.queue.table.remove(first)
        cut, count = job(), 1 if kept == "begun" else len(whole) // 2
        text = "".join(event["delta"] for event in whole[:count] if "text.delta" in event["type"])
        cut.add(whole[:count], text)
        await responses.queue.submit(cut)
        async for _ in responses.queue.events(cut):
            pass
        events = [event async for event in responses.queue.events(cut)]
    assert cut.result == whole[-1]["response"]
    assert [of_stream(events, kind) for kind in KINDS] == [of_stream(whole, kind) for kind in KINDS]


@pytest.mark.parametrize("ended", ["killed", "cancelled"])
@in_event_loop
async def test_nothing_of_a_call_is_shown_and_then_written_again(
    runtime: LocalRuntime, gate: Gate, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    """A process that ends while it writes a call has shown nothing that the next one writes anew."""
    pool, written, add = ModelPool.of(runtime), asyncio.Event(), ResponseBuilder._add_arguments
    request = {"body": REQUEST | {"background": True}, "session": None, "seed": 1}

    def note(builder: ResponseBuilder, text: str) -> Iterator[Any]:
        written.set()
        return add(builder, text)

    def made() -> Job:
        return Job(f"resp_{ended}", "local", pool.models[0].name, request, 1.0)

    monkeypatch.setattr(ResponseBuilder, "_add_arguments", note)
    async with BackgroundService(pool, ANY_LOAD) as responses:
        first = made()
        first.add([{"type": "response.created"}, {"type": "response.queued"}])
        await responses.queue.submit(first)
        while not written.is_set():
            gate.allow(1)
            await asyncio.sleep(0.01)
        shown = first.events_after(-1)
        if ended == "cancelled":
            await responses.queue.cancel(first)
    gate.open()
    if ended == "cancelled":
        assert first.result is not None
        (item,) = first.result["output"]
        assert (item["name"], item["status"]) == ("get_weather", "incomplete")
        assert of_stream(first.events, "function_call_arguments.delta") == item["arguments"] != ""
        assert sum(event["type"] == "response.incomplete" for event in first.events) == 1
        return
    assert first.result is None
    async with BackgroundService(pool, ANY_LOAD) as responses:
        resumed = made()
        resumed.add(shown, "")
        await responses.queue.submit(resumed)
        await asyncio.wait_for(responses.queue.ended(resumed), PATIENCE_S)
    assert resumed.result is not None
    assert resumed.events[: len(shown)] == shown
    added = [event["output_index"] for event in resumed.events if event["type"].endswith("item.added")]
    assert added == list(range(len(resumed.result["output"])))
    (call,) = resumed.result["output"]
    assert of_stream(resumed.events, "function_call_arguments.delta") == call["arguments"]


KINDS = ["output_text.delta", "function_call_arguments.delta", "output_item.done", "completed"]


def of_stream(events: list[Any], kind: str) -> Any:
    """Return what the events of a kind have together."""
    found = [event for event in events if event["type"] == f"response.{kind}"]
    if kind.endswith("delta"):
        return "".join(event["delta"] for event in found)
    return [event.get("item") or event["response"] for event in found]


def test_the_stream_of_a_response_ends_with_an_error_when_the_engine_has() -> None:
    opened = LocalRuntime.open("nano", RuntimeConfig(memory_bytes=32 * 2**20))
    with opened as runtime, running(runtime) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        reading = iter(client.responses.create(**LONG, stream=True))
        next(reading)
        runtime.close()
        with pytest.raises(openai.APIError, match="the server is stopping"):
            list(reading)
        (response,) = client.get("/responses", cast_to=httpx.Response).json()["data"]
        assert response["status"] == "in_progress", "it has not failed"
