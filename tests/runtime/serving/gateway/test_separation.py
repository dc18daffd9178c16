"""Apps that an engine sees as one client: none reaches what another has stored there."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.gateway import separation
from agentrt.runtime.serving.gateway.separation import StoredIds
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.gateway.conftest import gateway_before
from tests.runtime.serving.gateway.scripted import Scripted
from tests.runtime.serving.http.serving import Running, Start
from tests.runtime.serving.server.conftest import HELLO

pytestmark = pytest.mark.socket

APPS: Any = {"tokens": Tokens([("owner", "o" * 20), ("mine", "m" * 20), ("guest", "g" * 20)])}
KEY: Any = {"upstream_key": "k" * 20}
RESPONSE: Any = {"model": "nano", "input": "Hello!", "max_output_tokens": 4}
EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
OUTPUT: Any = {"name": "read", "params": {}, "output": "x"}


def headers_of(app: str) -> dict[str, str]:
    return {"authorization": f"Bearer {app[0] * 20}"}


@pytest.fixture(scope="module")
def shared_separating(shared_engine: Running) -> Iterator[Running]:
    with gateway_before(f"{shared_engine.url}/v1", **APPS, **KEY) as gateway:
        yield gateway


@pytest.fixture
def shared(shared_separating: Running, engine: Running) -> Iterator[Running]:
    """A gateway of three apps with one key, in front of a real engine."""
    yield shared_separating
    httpx.delete(f"{engine.url}/v1/contexts").raise_for_status()


@pytest.fixture
def apps(shared: Running) -> Iterator[Callable[[str], httpx.Client]]:
    with ExitStack() as stack:
        clients = {
            app: stack.enter_context(httpx.Client(base_url=shared.url, headers=headers_of(app), timeout=60))
            for app in ("owner", "mine", "guest")
        }
        yield clients.__getitem__


@pytest.fixture(scope="module")
def before_fake(fake_engine: Scripted) -> Iterator[Running]:
    """A gateway of three apps with one key, in front of the fake engine."""
    with gateway_before(fake_engine.url, **APPS, **KEY) as gateway:
        yield gateway


Apps = Callable[[str], httpx.Client]


def error_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def make_response(http: httpx.Client, **more: Any) -> str:
    answer = http.post("/v1/responses", json=RESPONSE | more).raise_for_status()
    if not more.get("stream"):
        return str(answer.json()["id"])
    first = next(line[6:] for line in answer.text.splitlines() if line.startswith("data: "))
    return str(json.loads(first)["response"]["id"])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_stored_response_is_that_of_its_app(apps: Apps, engine: Running, streamed: bool) -> None:
    mine, id = apps("mine"), make_response(apps("mine"), stream=streamed)
    path = f"/v1/responses/{id}"
    assert httpx.get(engine.url + path).status_code == 200, "the engine itself shows it to all"
    for other in (apps("guest"), apps("owner")):
        for method, suffix in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
            foreign, unknown = (
                other.request(method, f"/v1/responses/{each}{suffix}") for each in (id, "resp_unknown")
            )
            assert error_of(foreign) == error_of(unknown) == (404, "response_not_found")
            assert foreign.content == unknown.content
        foreign, unknown = (
            other.post("/v1/responses", json=RESPONSE | {"previous_response_id": previous})
            for previous in (id, "resp_unknown")
        )
        assert error_of(foreign) == error_of(unknown) == (400, "previous_response_not_found")
        assert foreign.content == unknown.content
    assert mine.get(path).json()["id"] == id
    assert mine.get(f"{path}/input_items").json()["data"][0]["content"][0]["text"] == "Hello!"
    following = make_response(mine, previous_response_id=id, stream=streamed)
    assert mine.delete(path).json()["deleted"] is True
    assert mine.get(f"/v1/responses/{following}").json()["previous_response_id"] == id


def test_a_context_is_that_of_its_app(apps: Apps, engine: Running) -> None:
    mine, other = apps("mine"), apps("guest")
    id = mine.post("/v1/contexts", json={"system_prompt": "You are mine."}).raise_for_status().json()["id"]
    path, call = f"/v1/contexts/{id}", {"messages": HELLO, "max_tokens": 4}
    for method, suffix in (("GET", ""), ("POST", "/chat/completions"), ("DELETE", "")):
        foreign, unknown = (
            other.request(method, f"/v1/contexts/{each}{suffix}", json=call) for each in (id, "ctx_unknown")
        )
        assert error_of(foreign) == error_of(unknown) == (404, "context_not_found")
        assert foreign.content == unknown.content
    for http in (mine, other):
        assert error_of(http.get("/v1/contexts")) == (403, "apps_share_engine_key")
        assert error_of(http.delete("/v1/contexts")) == (403, "apps_share_engine_key")
    assert mine.post(f"{path}/chat/completions", json=call).status_code == 200
    assert mine.get(path).json()["turns"] == 1
    assert mine.delete(path).json()["deleted"] is True
    assert httpx.get(engine.url + path).status_code == 404


@pytest.mark.parametrize(
    "target",
    [
        "GET /v1/files", "POST /v1/files", "GET /v1/files/file-1/content", "GET /v1/batches",
        "POST /v1/conversations", "GET /v1/conversations/c", "GET /v1/vector_stores", "GET /v1/containers",
        "GET /v1/assistants", "GET /v1/threads/t", "GET /v1/chat/completions", "GET /v1/chat/completions/c",
        "GET /v1/responses", "PUT /v1/responses/r", "POST /v1/responses/compact", "DELETE /v1/contexts/",
        "DELETE /v1/models/m", "GET /slots", "POST /slots/0?action=save", "POST /open_session",
        "POST /api/pull", "POST /v1/uploads", "GET /", "GET /whatever", "OPTIONS /v1/files",
        "GET //v1/contexts", "GET /v1//contexts",
        "GET /v1/%63ontexts", "GET /v1/contexts/", "GET /V1/Contexts", "GET /v1/models%2f..%2fcontexts",
        "POST /v1/chat%2fcompletions", "GET /v1/responses/resp_x%2finput_items",
    ],
)  # fmt: skip
def test_what_cannot_be_told_apart_is_refused(
    before_fake: Running, fake_engine: Scripted, target: str
) -> None:
    fake_engine.play(b"")
    method, path = target.split(" ")
    url = httpx.URL(before_fake.url).copy_with(raw_path=path.encode())
    answer = httpx.request(method, url, headers=headers_of("owner"), json={"messages": []})
    assert answer.status_code == 403
    assert "--upstream-key-file" in answer.text
    assert path.startswith("/api/") or error_of(answer) == (403, "apps_share_engine_key")
    assert fake_engine.heads == []


DECIDED = {
    "relayed": {
        "GET /api/tags", "GET /api/version", "GET /health", "GET /metrics", "GET /v1/models",
        "GET /v1/models/{model}", "POST /api/chat", "POST /api/embed", "POST /api/embeddings",
        "POST /api/generate", "POST /api/show", "POST /detokenize", "POST /tokenize",
        "POST /v1/chat/completions", "POST /v1/completions", "POST /v1/contexts", "POST /v1/embeddings",
        "POST /v1/messages", "POST /v1/messages/count_tokens", "POST /v1/responses",
    },
    "its app's": {
        "DELETE /v1/contexts/{context_id}", "DELETE /v1/responses/{response_id}",
        "GET /v1/contexts/{context_id}", "GET /v1/responses/{response_id}",
        "GET /v1/responses/{response_id}/input_items", "POST /v1/cache-tool-output/{response_id}",
        "POST /v1/contexts/{context_id}/chat/completions", "POST /v1/responses/{response_id}/cancel",
    },
    "refused": {
        "DELETE /v1/contexts", "GET /v1/contexts", "GET /v1/responses", "GET /api/ps", "POST /api/pull",
        "POST /v1/responses/compact",
    },
}  # fmt: skip
"""What becomes of each route of `agentrt serve`: it stores nothing, or what it stores has its maker's id; is
reached by the id of what an app has stored; or may show what others have stored, and stays refused."""


def test_every_route_of_agentrt_serve_is_decided_on(
    engine: Running, before_fake: Running, fake_engine: Scripted
) -> None:
    """A new one is decided on in ``separation.py``, and then here: until then it is refused."""
    fake_engine.play(b"")
    decided: dict[str, set[str]] = {decision: set() for decision in DECIDED}
    documents = [httpx.get(f"{url}/openapi.json").json() for url in (engine.url, engine.ollama_url)]
    for path, methods in (item for document in documents for item in document["paths"].items()):
        for method in map(str.upper, methods):
            before = len(fake_engine.heads)
            url = before_fake.url + re.sub(r"\{.*?\}", "unknown", path)
            body: Any = [OUTPUT] if "cache-tool-output" in path else {}
            answer = httpx.request(method, url, headers=headers_of("owner"), json=body)
            refused = {403: "refused", 404: "its app's"}.get(answer.status_code)
            decision = "relayed" if len(fake_engine.heads) > before else str(refused)
            decided[decision].add(f"{method} {path}")
    assert decided == DECIDED


@pytest.mark.parametrize("settings", [{"tokens": Tokens([("owner", "o" * 20)]), **KEY}, KEY, {}])
def test_one_app_or_keys_of_the_clients_need_no_separation(
    start: Start, fake_engine: Scripted, settings: Any
) -> None:
    body = b'{"previous_response_id": "x",  "conversation": "y"}'
    gateway = start(fake_engine.url, **settings)
    for method, path in (("GET", "/v1/files"), ("GET", "/v1/responses/r"), ("POST", "/v1/responses")):
        fake_engine.play(EMPTY)
        answer = httpx.request(method, gateway.url + path, headers=headers_of("owner"), content=body)
        assert answer.content == b"{}"
        assert fake_engine.bodies == [body]


WHOLE: list[dict[str, Any]] = [
    {"role": "user", "content": "x"},
    {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": ""}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""},
    {"type": "function_call_output", "call_id": "c", "output": ""},
    {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "x"}]},
]
LOOKED_UP: list[dict[str, Any]] = [
    {"type": "item_reference", "id": "msg_1"},
    {"id": "msg_1"},
    {"id": "msg_1", "type": None},
    {"type": "message", "id": "msg_1"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [], "encrypted_content": None},
    {"type": "image_generation_call", "id": "ig_1", "content": "x", "output": "x"},
    {"type": ["message"], "id": "msg_1", "content": "x"},
    {"type": "whatever", "content": "x"},
]
FUNCTION: Any = {"type": "function", "name": "f", "parameters": {"properties": {"container": {}}}}
FUNCTION["container"] = "x"


def test_items_with_their_content_are_sent(before_fake: Running, fake_engine: Scripted) -> None:
    fake_engine.play(EMPTY)
    auto = {"type": "code_interpreter", "container": {"type": "auto"}}
    browser = {"type": "computer_use_preview", "environment": "browser"}
    body = {"input": WHOLE, "tools": [FUNCTION, auto, browser], "conversation": None}
    body["metadata"] = {"Input": "x"}
    answer = httpx.post(f"{before_fake.url}/v1/responses", json=body, headers=headers_of("mine"))
    assert answer.json() == {}
    assert json.loads(fake_engine.bodies[0]) == body


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        *(({"input": [WHOLE[0], item]}, "input[1]") for item in LOOKED_UP),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"request_id": "resp_1"}, "request_id"),
        ({"tools": [FUNCTION, {"type": "code_interpreter", "container": "cntr_1"}]}, "tools[1]"),
        ({"tools": [{"type": "shell", "environment": {"container_id": "cntr_1"}}]}, "tools[0]"),
    ],
)  # fmt: skip
def test_references_to_what_may_be_another_apps_are_refused(
    before_fake: Running, fake_engine: Scripted, fields: dict[str, Any], param: str
) -> None:
    fake_engine.play(b"")
    answer = httpx.post(f"{before_fake.url}/v1/responses", json=RESPONSE | fields, headers=headers_of("mine"))
    assert error_of(answer) == (403, "apps_share_engine_key")
    assert answer.json()["error"]["param"] == param
    assert fake_engine.heads == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"Previous_Response_ID": "resp_1"}', '{"previou\u017f_response_id": "resp_1"}'.encode(),
        b'{"input": [{"role": "user", "content": "x", "Type": "item_reference", "id": "msg_1"}]}',
        b'{"tools": [{"type": "code_interpreter", "Container": "cntr_1"}]}',
        b'{"previous_response_id": ["resp_1"]}', b'{"previous_response_id": "resp_1", "x": NaN}',
        b'{"input": "' + b'\xff' + b'"}', gzip.compress(b'{"previous_response_id": "resp_1"}', mtime=0),
        b"[" * 1000, b"[" + b"1," * 200_000 + b"1]",
    ],
)  # fmt: skip
def test_a_body_that_engines_may_read_otherwise_is_refused(
    before_fake: Running, fake_engine: Scripted, body: bytes
) -> None:
    fake_engine.play(b"")
    answer = httpx.post(f"{before_fake.url}/v1/responses", content=body, headers=headers_of("mine"))
    assert answer.status_code == (413 if len(body) > 100_000 else 400)
    assert answer.json()["error"]["code"]
    assert fake_engine.heads == []


def test_of_a_repeated_name_the_engine_gets_what_was_checked(
    before_fake: Running, fake_engine: Scripted
) -> None:
    fake_engine.play(EMPTY)
    body = b'{"previous_response_id": "resp_of_another", "previous_response_id": null}'
    httpx.post(f"{before_fake.url}/v1/responses", content=body, headers=headers_of("mine"))
    assert fake_engine.bodies == [b'{"previous_response_id":null}']


EVENT = b'event: response.created\ndata: {"type": "response.created", "response": {"id": "resp_1"}}\n\n'
TYPES = {False: b"application/json", True: b"text/event-stream"}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "body", "event", "found"),
    [
        (b"200", b'{"output": {"id": "resp_2"}, "id": "resp_1"} ', b": ping\n\ndata: {}\n\n" + EVENT, True),
        (b"400", b'{"id": "resp_1"}', EVENT, False),
        (b"200", b'{"id": 1}', EVENT.replace(b'"resp_1"', b"1"), False),
        (b"200", b'{"id": "resp_1"', EVENT.replace(b"}}", b"}"), False),
        (b"200", b'["resp_1"]', b"data: resp_1\n\n", False),
    ],
)
def test_the_id_of_an_answer(
    start: Start, fake_engine: Scripted, streamed: bool, status: bytes, body: bytes, event: bytes, found: bool
) -> None:
    answer = event if streamed else body
    head = b"HTTP/1.1 %b X\r\ncontent-type: %b\r\n\r\n" % (status, TYPES[streamed])
    # In two pieces, as it may arrive.
    fake_engine.play(head + answer[:40], held=answer[40:], next_answer=EMPTY)
    fake_engine.go_on.set()
    gateway = start(fake_engine.url, **APPS, **KEY)
    mine = headers_of("mine")
    assert httpx.post(f"{gateway.url}/v1/responses", json={}, headers=mine).content == answer
    assert b"accept-encoding: identity" in fake_engine.heads[0].lower()
    stored = httpx.get(f"{gateway.url}/v1/responses/resp_1", headers=mine)
    assert stored.status_code == (200 if found else 404)
    assert httpx.get(f"{gateway.url}/v1/responses/resp_2", headers=mine).status_code == 404


def test_an_id_stays_that_of_the_first_app(before_fake: Running, fake_engine: Scripted) -> None:
    """An engine, or the text of an answer, cannot hand one app's response to another app."""
    fake_engine.play(b'HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n{"id":"resp_one"}')
    path = f"{before_fake.url}/v1/responses"
    for app in ("mine", "guest"):
        assert httpx.post(path, json={}, headers=headers_of(app)).status_code == 200
    shown = [httpx.get(f"{path}/resp_one", headers=headers_of(app)) for app in ("mine", "guest")]
    assert [answer.status_code for answer in shown] == [200, 404]


def test_ids_are_bounded_for_each_app_and_the_latest_used_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separation, "MAX_IDS", 3)
    ids = StoredIds(None, APPS["tokens"])

    async def steps() -> None:
        for number in range(3):
            await ids.add("mine", "response", f"r{number}")
        assert await ids.use("mine", "response", "r0")
        await ids.add("mine", "response", "r3")
        for number in range(10):
            await ids.add("other", "response", f"o{number}")
        used = [await ids.use("mine", "response", f"r{number}") for number in range(4)]
        assert used == [True, False, True, True]
        await ids.add("mine", "response", "x" * 1000)
        assert not await ids.use("mine", "response", "x" * 1000)
        assert not await ids.use("owner", "response", "r0")

    asyncio.run(steps())
