"""``agentrt serve --context-folder`` as a process that is killed between calls, and during them."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.runtime.serving.server.conftest import HELLO
from tests.runtime.serving.server.test_run import Service, serve

__all__ = ["serve"]

pytestmark = [
    pytest.mark.check,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]

SYSTEM = "You help with notes, mail and the calendar."
NANO: Any = {"model": "nano"}


class Server:
    """A server of one folder, its address, and clients."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.url = service.wait_for("serving nano at").rsplit(" ", 1)[1]
        self.http = httpx.Client(base_url=self.url, timeout=60)
        self.client = openai.OpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=60)

    def close(self) -> None:
        self.http.close()
        self.client.close()

    def kill(self) -> None:
        self.close()
        self.service.process.send_signal(signal.SIGKILL)
        self.service.end()

    def ask(self, context: str, text: str, **options: Any) -> Any:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 20} | options
        return self.http.post(f"/contexts/{context}/chat/completions", json=body).raise_for_status().json()

    def metrics(self) -> str:
        return httpx.get(self.url.removesuffix("/v1") + "/metrics").raise_for_status().text

    def messages(self, context: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get(f"/contexts/{context}").json()["messages"]
        return found


@pytest.fixture
def start(serve: Callable[..., Service], tmp_path: Path) -> Iterator[Callable[..., Server]]:
    arguments = ["--port", "0", "--no-auth", "--memory-mib", "32", "--context-folder", str(tmp_path)]
    started: list[Server] = []

    def one(*more: str) -> Server:
        started.append(Server(serve(*arguments, *more)))
        return started[-1]

    yield one
    for server in started:
        server.close()


def test_conversations_go_on_after_kill_9(start: Callable[[], Server]) -> None:
    server = start()
    context = server.http.post("/contexts", json={"system_prompt": SYSTEM}).json()["id"]
    server.ask(context, "Hello!")
    response = server.client.responses.create(**NANO, input="Hello!", max_output_tokens=20)
    session = {"x-session-id": "thread 7"}
    server.http.post("/chat/completions", json={"messages": HELLO, "max_tokens": 2}, headers=session)
    listed = server.http.get("/contexts").json()["data"]
    text = server.messages(context)
    assert (len(text), len(listed)) == (3, 3)
    server.kill()

    server = start()
    again = server.http.get("/contexts").json()["data"]
    assert sorted(each["id"] for each in again) == sorted(each["id"] for each in listed)
    assert server.messages(context) == text
    assert server.client.responses.retrieve(response.id) == response
    answer = server.ask(context, "Who are you?")["choices"][0]["message"]["content"]
    asked = [*text, {"role": "user", "content": "Who are you?"}]
    stateless = server.http.post("/chat/completions", json={"messages": asked, "max_tokens": 20}).json()
    assert answer == stateless["choices"][0]["message"]["content"]
    assert server.messages(context) == [*asked, {"role": "assistant", "content": answer}]
    following = server.client.responses.create(
        **NANO, input="Who are you?", previous_response_id=response.id, max_output_tokens=20
    )
    server.kill()

    server = start()
    assert len(server.messages(context)) == 5
    third = server.client.responses.create(
        **NANO, input="Thanks.", previous_response_id=following.id, max_output_tokens=20
    )
    assert third.previous_response_id == following.id
    server.client.responses.delete(third.id)
    assert server.http.delete(f"/contexts/{context}").status_code == 200
    server.kill()

    server = start()
    assert server.http.get(f"/contexts/{context}").status_code == 404
    with pytest.raises(openai.NotFoundError):
        server.client.responses.retrieve(third.id)
    assert server.client.responses.retrieve(following.id) == following


def test_kill_9_during_a_call_leaves_the_text_before_it(start: Callable[[], Server]) -> None:
    server = start()
    context = server.http.post("/contexts", json={}).json()["id"]
    server.ask(context, "Hello!")
    text = server.messages(context)
    body = {"messages": HELLO, "max_tokens": 3000, "ignore_eos": True, "stream": True}
    with (
        server.http.stream("POST", f"/contexts/{context}/chat/completions", json=body) as streamed,
        server.http.stream("POST", "/responses", json=NANO | {"input": "Hello!", **body}) as responding,
    ):
        answers = [streamed.iter_lines(), responding.iter_lines()]
        next(answers[0])
        created = next(line for line in iter(answers[1].__next__, None) if line.startswith("data:"))
        server.service.process.send_signal(signal.SIGKILL)
        for lines in answers:
            with pytest.raises(httpx.TransportError):
                list(lines)
    server.kill()

    server = start()
    assert server.messages(context) == text
    id = json.loads(created.removeprefix("data:"))["response"]["id"]
    assert server.http.get(f"/responses/{id}").status_code == 404
    assert [each["id"] for each in server.http.get("/contexts").json()["data"]] == [context]
    server.ask(context, "Who are you?")
