"""``/v1/contexts`` over real sockets, with the official client where it has a method."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.http.identity import Tokens
from tests.patience import until
from tests.runtime.conftest import Gate
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO, running

SYSTEM = "You help with notes, mail and the calendar."
ORPHAN = {"role": "tool", "tool_call_id": "call_0", "content": "12 C"}
LONG: Any = {"max_tokens": 400, "extra_body": {"ignore_eos": True}}


def new(http: httpx.Client, **body: Any) -> dict[str, Any]:
    response = http.post("/v1/contexts", json=body)
    assert response.status_code == 200, response.text
    made: dict[str, Any] = response.json()
    return made


@contextmanager
def continuing(http: httpx.Client, context: dict[str, Any]) -> Iterator[openai.OpenAI]:
    """The official client, of whose requests each continues one context."""
    url = f"{str(http.base_url).rstrip('/')}/v1/contexts/{context['id']}"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


def ask(client: openai.OpenAI, text: str, **options: Any) -> Any:
    messages: Any = [{"role": "user", "content": text}]
    return client.chat.completions.create(model="nano", messages=messages, **{"max_tokens": 30} | options)


def test_the_life_of_a_context(http: httpx.Client, runtime: LocalRuntime) -> None:
    context = new(http, system_prompt=SYSTEM)
    assert (context["object"], context["model"], context["kind"]) == ("context", "nano", "context")
    assert (context["turns"], context["tokens"], context["status"]) == (0, 0, "idle")
    with continuing(http, context) as client:
        first = ask(client, "Hello!")
        chunks = list(ask(client, "What is the weather in Oslo?", stream=True))
    second = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    shown = http.get(f"/v1/contexts/{context['id']}").json()
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "What is the weather in Oslo?"},
        {"role": "assistant", "content": second},
    ]
    assert shown["messages"] == messages
    expected = runtime.generate(messages[:-1], max_tokens=30)
    assert second == expected.text
    assert shown["tokens"] == expected.usage.prompt_tokens + expected.usage.completion_tokens
    assert shown["turns"] == 2
    (listed,) = http.get("/v1/contexts").json()["data"]
    assert listed == {name: value for name, value in shown.items() if name != "messages"}

    deleted = http.delete(f"/v1/contexts/{context['id']}")
    assert deleted.json() == {"id": context["id"], "object": "context", "deleted": True}
    nothing = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert http.get("/v1/contexts").json() == nothing
    assert http.delete(f"/v1/contexts/{context['id']}").status_code == 404


def test_a_streamed_tool_loop(http: httpx.Client, weather_tool: dict[str, Any]) -> None:
    context = new(http)
    with continuing(http, context) as client:
        chunks = list(ask(client, "What is the weather in Ljubljana?", tools=[weather_tool], stream=True))
        (id,) = [call.id for chunk in chunks for call in chunk.choices[0].delta.tool_calls or () if call.id]
        output: Any = {"role": "tool", "tool_call_id": id, "content": '{"temperature_c": 12}'}
        final = client.chat.completions.create(
            model="nano",
            messages=[output],
            tools=[weather_tool],
            max_tokens=60,  # type: ignore[list-item]
        )
    assert "12" in (final.choices[0].message.content or "")
    messages = http.get(f"/v1/contexts/{context['id']}").json()["messages"]
    assert messages[1]["tool_calls"][0]["id"] == id  # the one that the client has seen


def test_a_second_call_is_a_conflict(http: httpx.Client, gate: Gate) -> None:
    context = new(http)
    with continuing(http, context) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, client, "Hello!", max_tokens=4)
        gate.arrived()
        for stream in (False, True):
            with pytest.raises(openai.ConflictError) as caught:
                ask(client, "Are you there?", stream=stream)
            assert caught.value.code == "context_busy"
            assert caught.value.response.headers["x-should-retry"] == "false"
        assert http.get(f"/v1/contexts/{context['id']}").json()["status"] == "running"
        gate.open()
        first.result(60)
        ask(client, "Are you there?")
    assert http.get(f"/v1/contexts/{context['id']}").json()["turns"] == 2


def test_deleting_a_context_ends_its_call(http: httpx.Client, gate: Gate) -> None:
    for stream in (False, True):
        context = new(http)
        with continuing(http, context) as client, ThreadPoolExecutor(1) as pool:
            call = pool.submit(lambda s=stream, c=client: list(ask(c, "Hello!", stream=s, **LONG)))
            gate.arrived()
            assert http.delete(f"/v1/contexts/{context['id']}").status_code == 200
            gate.allow(400)
            with pytest.raises((openai.NotFoundError, openai.APIError), match="no context") as caught:
                call.result(60)
            assert caught.value.code == "context_not_found"  # type: ignore[attr-defined]


def test_the_stream_of_a_deleted_context_ends_whole(http: httpx.Client, gate: Gate) -> None:
    context = new(http)
    path = f"/v1/contexts/{context['id']}"
    body = {"messages": HELLO, "stream": True, **LONG["extra_body"], "max_tokens": 400}
    with http.stream("POST", f"{path}/chat/completions", json=body) as response:
        gate.arrived()
        assert http.delete(path).status_code == 200
        gate.allow(400)
        *_, last = [line for line in response.iter_lines() if line]  # raises if the connection is cut
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "context_not_found"


def test_a_client_that_disconnects_leaves_the_context_as_it_was(http: httpx.Client) -> None:
    context = new(http)
    body = {"messages": HELLO, "max_tokens": 3000, "ignore_eos": True, "stream": True}
    path = f"/v1/contexts/{context['id']}"
    with http.stream("POST", f"{path}/chat/completions", json=body) as response:
        next(response.iter_lines())
    until(lambda: http.get(path).json()["status"] != "running")
    assert http.get(path).json()["turns"] == 0
    with continuing(http, context) as client:
        ask(client, "Hello!")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"system_prompt": 7}, "system_prompt"),
        ("", {"system_prompt": "word " * 20_000}, "system_prompt"),
        ("/chat/completions", {"messages": []}, "messages"),
        ("/chat/completions", {"messages": HELLO, "n": 2}, "n"),
        ("/chat/completions", {"messages": [*HELLO, ORPHAN]}, "messages[1].tool_call_id"),
        ("/chat/completions", {"messages": [ORPHAN], "stream": True}, "messages[0].tool_call_id"),
        ("/chat/completions", {"messages": HELLO, "temperature": "hot"}, "temperature"),
        ("/chat/completions", {"messages": [{"role": "user", "content": "x " * 20_000}]}, "messages"),
    ],
)
def test_invalid_requests(http: httpx.Client, path: str, body: dict[str, Any], param: str) -> None:
    context = new(http)
    response = http.post(f"/v1/contexts/{context['id']}{path}" if path else "/v1/contexts", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    (only,) = http.get("/v1/contexts").json()["data"]
    context["last_used_at"] = only["last_used_at"]  # in whole seconds, the next of which may begin meanwhile
    assert only == context


def test_a_full_context_says_what_helps_and_it_does(http: httpx.Client) -> None:
    context = new(http, system_prompt=SYSTEM)
    with continuing(http, context) as client:
        ask(client, "word " * 600, max_tokens=2)
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError, match="begin a new context with what still") as caught:
                ask(client, "word " * 600, stream=stream)
            assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
            assert "old messages" not in caught.value.message  # a context has no way to drop them
        messages = http.get(f"/v1/contexts/{context['id']}").json()["messages"]
    following = new(http, system_prompt=messages[0]["content"])
    again = [messages[2], {"role": "user", "content": "What did you say?"}]
    path = f"/v1/contexts/{following['id']}/chat/completions"
    assert http.post(path, json={"messages": again, "max_tokens": 2}).status_code == 200


def test_an_unknown_model(http: httpx.Client) -> None:
    assert http.post("/v1/contexts", json={"model": "gpt-4"}).status_code == 404
    context = new(http, model="nano")
    body = {"model": "gpt-4", "messages": HELLO}
    assert http.post(f"/v1/contexts/{context['id']}/chat/completions", json=body).status_code == 404


def test_sessions_are_listed_and_deleted_but_not_called(http: httpx.Client) -> None:
    body = {"messages": HELLO, "max_tokens": 2}
    http.post("/v1/chat/completions", json=body, headers={"x-session-id": "thread 7"})
    (session,) = http.get("/v1/contexts").json()["data"]
    assert (session["kind"], session["session"]) == ("session", "thread 7")
    assert http.get(f"/v1/contexts/{session['id']}").json()["messages"] == []
    response = http.post(f"/v1/contexts/{session['id']}/chat/completions", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "context_id"
    assert http.delete(f"/v1/contexts/{session['id']}").status_code == 200


def test_the_quota(open_runtime: Callable[..., LocalRuntime]) -> None:
    with running(open_runtime(contexts_per_app=1)) as server, httpx.Client(base_url=server.url) as http:
        context = new(http)
        response = http.post("/v1/contexts", json={})
        assert response.status_code == 429
        assert response.json()["error"]["code"] == "context_quota_exceeded"
        assert response.headers["x-should-retry"] == "false"  # OpenAI's clients obey it
        http.delete(f"/v1/contexts/{context['id']}")
        new(http)


@pytest.fixture
def two_apps(start: Callable[..., Running]) -> Iterator[list[httpx.Client]]:
    tokens = [("one", "token-of-the-first-app"), ("two", "token-of-the-second-app")]
    server = start(tokens=Tokens(tokens))
    clients = [
        httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {token}"}, timeout=60)
        for _, token in tokens
    ]
    yield clients
    for client in clients:
        client.close()


REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "/v1/contexts/{}", None),
    ("DELETE", "/v1/contexts/{}", None),
    ("POST", "/v1/contexts/{}/chat/completions", {"messages": HELLO}),
]


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
def test_another_apps_context_is_as_unknown_as_any(
    two_apps: list[httpx.Client], method: str, path: str, body: Any
) -> None:
    one, two = two_apps
    foreign, unknown = new(one)["id"], "ctx_" + "0" * 48
    answers = [two.request(method, path.format(id), json=body) for id in (foreign, unknown)]
    assert [answer.status_code for answer in answers] == [404, 404]
    shapes = [answer.json()["error"] for answer in answers]
    assert shapes[0] == {
        "message": f"there is no context '{foreign}', or no longer. List the app's contexts, or make a "
        "new one.",
        "type": "invalid_request_error",
        "param": "context_id",
        "code": "context_not_found",
    }
    assert shapes[1] == shapes[0] | {"message": shapes[0]["message"].replace(foreign, unknown)}
    assert one.get(f"/v1/contexts/{foreign}").status_code == 200
    assert two.get("/v1/contexts").json()["data"] == []


def test_apps_share_a_prefix_that_they_declare_public(two_apps: list[httpx.Client]) -> None:
    def cached(http: httpx.Client, catalogue: str, **fields: Any) -> int:
        messages = [{"role": "system", "content": catalogue * 20}, *HELLO]
        body = {"messages": messages, "max_tokens": 2} | fields
        answer = http.post("/v1/chat/completions", json=body).raise_for_status().json()
        return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

    one, two = two_apps
    assert cached(one, "A public catalogue of tools. ", shared_prefix=True) == 0
    assert cached(two, "A public catalogue of tools. ", shared_prefix=True) > 0
    assert cached(one, "A private catalogue of tools. ") == 0
    assert cached(two, "A private catalogue of tools. ", shared_prefix=True) == 0
