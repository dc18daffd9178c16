"""``/v1/contexts`` over real sockets, with the official client where it has a method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.contexts.context import ContextKind
from agentrt.runtime.serving.http.identity import LOCAL_APP
from tests.patience import until
from tests.runtime.conftest import Gate, Hold
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO, running

SYSTEM = "You help with notes, mail and the calendar."
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


@pytest.mark.parametrize("path", ["/v1/contexts/{id}", "/v1/contexts"])
def test_deleting_a_context_ends_its_call(
    http: httpx.Client, runtime: LocalRuntime, hold: Hold, path: str
) -> None:
    for stream in (False, True):
        context = new(http)
        gate = hold(runtime)
        with continuing(http, context) as client, ThreadPoolExecutor(1) as pool:
            call = pool.submit(lambda s=stream, c=client: list(ask(c, "Hello!", stream=s, **LONG)))
            gate.arrived()
            assert http.delete(path.format(**context)).status_code == 200
            gate.open()
            with pytest.raises((openai.NotFoundError, openai.APIError), match="no context") as caught:
                call.result(60)
            assert caught.value.code == "context_not_found"
    assert kinds(http) == []


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


def test_a_full_context_says_what_helps_and_it_does(http: httpx.Client) -> None:
    context = new(http, system_prompt=SYSTEM)
    refused = {"truncation": "disabled"}
    with continuing(http, context) as client:
        ask(client, "word " * 600, max_tokens=2)
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError, match="begin a new context with what still") as caught:
                ask(client, "word " * 600, stream=stream, extra_body=refused)
            assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
            assert "old messages" not in caught.value.message  # a context has no way to drop them
        messages = http.get(f"/v1/contexts/{context['id']}").json()["messages"]
    following = new(http, system_prompt=messages[0]["content"])
    again = [messages[2], {"role": "user", "content": "What did you say?"}]
    path = f"/v1/contexts/{following['id']}/chat/completions"
    assert http.post(path, json={"messages": again, "max_tokens": 2}).status_code == 200


def test_a_full_context_goes_on_and_says_what_it_has_left_out(http: httpx.Client) -> None:
    context = new(http, system_prompt=SYSTEM)
    with continuing(http, context) as client:
        whole = ask(client, "word " * 600, max_tokens=2).usage.prompt_tokens_details
        cut = ask(client, "word " * 600, max_tokens=2).usage.prompt_tokens_details
        *_, last = ask(client, "Hello!", stream=True, stream_options={"include_usage": True})
    assert "truncated_messages" not in whole.model_dump()
    assert (cut.truncated_messages, cut.truncated_tokens > 600) == (2, True)
    assert last.usage.prompt_tokens_details.truncated_messages == 2
    shown = http.get(f"/v1/contexts/{context['id']}").json()
    assert (len(shown["messages"]), shown["turns"]) == (7, 3)
    assert shown["tokens"] > 1200


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


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/contexts/{}", None),
        ("DELETE", "/v1/contexts/{}", None),
        ("POST", "/v1/contexts/{}/chat/completions", {"messages": HELLO}),
    ],
)
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


SHORT = {"model": "nano", "messages": HELLO, "max_tokens": 2}


def everything(http: httpx.Client) -> str:
    """Make a context, a session and a response; return the id of the response."""
    context = new(http)
    http.post(f"/v1/contexts/{context['id']}/chat/completions", json=SHORT).raise_for_status()
    http.post("/v1/chat/completions", json=SHORT, headers={"x-session-id": "7"}).raise_for_status()
    body = {"input": "Hello!", "max_output_tokens": 2}
    return str(http.post("/v1/responses", json=body).raise_for_status().json()["id"])


def kinds(http: httpx.Client) -> list[str]:
    return sorted(context["kind"] for context in http.get("/v1/contexts").json()["data"])


def test_everything_of_one_app_is_deleted(two_apps: list[httpx.Client]) -> None:
    one, two = two_apps
    responses = [everything(http) for http in two_apps]
    before = two.get("/v1/contexts").json()
    deleted = one.delete("/v1/contexts")
    assert (deleted.status_code, deleted.json()) == (200, {"object": "list", "deleted": True})
    assert kinds(one) == []
    assert one.get(f"/v1/responses/{responses[0]}").status_code == 404
    assert two.get("/v1/contexts").json() == before
    assert two.get(f"/v1/responses/{responses[1]}").status_code == 200
    assert one.delete("/v1/contexts").status_code == 200  # there is nothing left, which is no error
    everything(one)
    assert kinds(one) == ["context", "responses", "session"]


def test_an_id_or_a_choice_that_is_none_deletes_nothing(http: httpx.Client) -> None:
    new(http)
    for path in ("/v1/contexts/", "/v1/contexts//", "/v1/contexts/%2F", "/v1/contexts/a/b"):
        response = http.delete(path, follow_redirects=True)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "context_not_found")
    for param in ("kind", "limit", "id"):
        response = http.delete("/v1/contexts", params={param: "1"})
        assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert kinds(http) == ["context"]


@pytest.fixture
def made(server: Running, runtime: LocalRuntime) -> list[str]:
    """Seven contexts of three kinds, the oldest first."""
    table = runtime.context_table
    for number in range(7):
        kind = list(ContextKind)[number % 3]
        session = str(number) if kind is ContextKind.SESSION else None
        table.create(LOCAL_APP, kind, session=session)
    return [context.id for context in sorted(table.contexts(LOCAL_APP), key=lambda each: each.created)]


def listed(http: httpx.Client, **query: Any) -> dict[str, Any]:
    page: dict[str, Any] = http.get("/v1/contexts", params=query).raise_for_status().json()
    assert [page["first_id"], page["last_id"]] == [each["id"] for each in (page["data"][0], page["data"][-1])]
    return page


def pages(
    http: httpx.Client, between: Callable[[], None] = lambda: None, **query: Any
) -> Iterator[list[str]]:
    page = listed(http, **query)
    while True:
        yield [each["id"] for each in page["data"]]
        if not page["has_more"]:
            return
        between()
        page = listed(http, after=page["last_id"], **query)


@pytest.mark.parametrize("limit", [1, 3, 6, 7, 100])
def test_every_context_is_on_one_page(http: httpx.Client, made: list[str], limit: int) -> None:
    for order in ("asc", "desc"):
        found = list(pages(http, order=order, limit=limit))
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
        assert list(chain(*found)) == (made if order == "asc" else made[::-1])
    past = {"after": made[0]}  # the oldest one is the last
    nothing = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert http.get("/v1/contexts", params=past).json() == nothing


def test_what_is_used_and_made_meanwhile_hides_nothing(
    http: httpx.Client, runtime: LocalRuntime, made: list[str]
) -> None:
    oldest = made[0]

    def use() -> None:
        with runtime.context_table.begin_turn(LOCAL_APP, oldest) as turn:
            turn.commit(HELLO, 1)
        runtime.context_table.create(LOCAL_APP)

    found = list(pages(http, use, limit=2))
    assert list(chain(*found)) == made[::-1]


def test_another_apps_context_is_no_place_to_begin(http: httpx.Client, runtime: LocalRuntime) -> None:
    foreign = runtime.bind("other").new_context().id
    try:
        answers = [http.get("/v1/contexts", params={"after": id}) for id in (foreign, "ctx_" + "0" * 48)]
        assert [answer.status_code for answer in answers] == [400, 400]
        errors = [answer.text.replace(foreign, "ctx_" + "0" * 48) for answer in answers]
        assert errors[0] == errors[1]
    finally:
        runtime.bind("other").delete(foreign)
