"""``X-AgentRT-Priority``: taken, checked and returned by the server, and passed on by the gateway."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from agentrt import Priority, priority, speculable
from agentrt.adapters.openai import speculate
from agentrt.runtime import LocalRuntime
from agentrt.testing import ScriptedSpeculator
from tests.runtime.serving.gateway.conftest import gateway_before
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO

CHAT: dict[str, Any] = {"model": "nano", "messages": HELLO, "max_tokens": 4}
RESPONSES: dict[str, Any] = {"model": "nano", "input": "Hello!", "max_output_tokens": 4}
NAME = "X-AgentRT-Priority"
BODIES = [("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSES)]


@pytest.fixture
def served(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> list[Priority]:
    """The priorities with which the runtime has been given requests."""
    given: list[Priority] = []
    process = runtime._input_processor.process

    def spy(*args: Any, **options: Any) -> Any:
        request = process(*args, **options)
        given.append(request.priority)
        return request

    monkeypatch.setattr(runtime._input_processor, "process", spy)
    return given


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize(
    ("header", "fields", "expected"),
    [
        ("proactive", {}, Priority.PROACTIVE),
        ("Reactive", {}, Priority.REACTIVE),
        ("proactive", {"priority": 1}, Priority.PROACTIVE),
        ("proactive", {"service_tier": "auto"}, Priority.PROACTIVE),
        ("reactive", {"priority": 0, "service_tier": "flex"}, Priority.REACTIVE),
        (None, {"priority": 10}, Priority.PROACTIVE),
        (None, {}, Priority.REACTIVE),
    ],
)
def test_the_header_is_a_priority(
    http: httpx.Client,
    served: list[Priority],
    header: str | None,
    fields: dict[str, Any],
    expected: Priority,
    path: str,
    body: dict[str, Any],
    stream: bool,
) -> None:
    headers = {} if header is None else {NAME: header}
    answer = http.post(path, json={**body, **fields, "stream": stream}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers[NAME] == expected.name.lower()
    assert served == [expected]


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ([(NAME, "urgent")], {}),
        ([(NAME, "10")], {}),
        ([(NAME, "")], {}),
        ([(NAME, "reactive"), (NAME, "proactive")], {}),
        ([(NAME, "reactive")], {"priority": 10}),
        ([(NAME, "proactive")], {"priority": 0}),
        ([(NAME, "reactive")], {"service_tier": "flex"}),
        ([(NAME, "proactive")], {"service_tier": "priority"}),
    ],
)
def test_nonsense_and_contradictions_are_refused(
    http: httpx.Client,
    served: list[Priority],
    headers: list[tuple[str, str]],
    fields: dict[str, Any],
    path: str,
    body: dict[str, Any],
) -> None:
    answer = http.post(path, json={**body, **fields}, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == NAME.lower()
    assert served == []


@pytest.mark.parametrize("through_gateway", [False, True])
def test_a_speculated_client_recognises_the_server(
    server: Running, served: list[Priority], through_gateway: bool
) -> None:
    @speculable
    def look(q: str) -> str:
        return q

    def ask(url: str) -> None:
        plain = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        with speculate(plain, ScriptedSpeculator(), tools=[look]) as client, priority(Priority.PROACTIVE):
            for _ in range(2):
                client.chat.completions.create(**CHAT)

    if through_gateway:
        with gateway_before(f"{server.url}/v1") as gateway:
            ask(gateway.url)
    else:
        ask(server.url)
    assert served == [Priority.REACTIVE, Priority.PROACTIVE]
