"""``agentrt serve`` as a process: sockets, tokens, signals, and kills between calls and during them."""

from __future__ import annotations

import itertools
import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.server import ServerConfig, bind
from tests.patience import until
from tests.runtime.serving.server.conftest import HELLO

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and Unix sockets"),
]

LONG = {"model": "nano", "messages": HELLO, "max_tokens": 400, "ignore_eos": True, "stream": True}


class Service:
    """A server process and the lines it has printed."""

    def __init__(self, *arguments: str, command: str = "serve") -> None:
        self.process = subprocess.Popen(
            # Should it crash, the stacks of its threads are among its lines.
            [sys.executable, "-X", "faulthandler", "-m", "agentrt", command, *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []

    def wait_for(self, words: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.strip())
            if words in line:
                return line.strip()
        raise AssertionError(self.lines)

    def end(self) -> int:
        if not self.process.stderr.closed:
            self.lines += self.process.stderr.read().splitlines()
            self.process.stderr.close()
        return self.process.wait(60)


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def one(*arguments: str) -> Service:
        started.append(Service(*arguments))
        return started[-1]

    yield one
    for service in started:
        service.process.kill()
        service.end()


def refuses_connections(http: httpx.Client) -> bool:
    try:
        http.get("/models")
    except httpx.TransportError:
        return True
    return False


def test_it_prints_a_token_and_drains_on_sigterm(serve: Callable[..., Service]) -> None:
    service = serve("--port", "0")
    url = service.wait_for("serving nano at").rsplit(" ", 1)[1]
    token = service.wait_for("token").rsplit(" ", 1)[1]
    with httpx.Client(base_url=url, timeout=60) as http:
        assert http.get("/models").status_code == 401
        http.headers["authorization"] = f"Bearer {token}"
        with http.stream("POST", "/chat/completions", json=LONG) as response:
            lines = response.iter_lines()
            next(lines)
            service.process.send_signal(signal.SIGTERM)
            rest = list(lines)  # requests in progress are completed
        assert "data: [DONE]" in rest
        until(lambda: refuses_connections(http))  # the answer may be complete before the signal
    assert service.end() == 0, service.lines
    assert service.lines[-1] == "stopped"


def test_both_listeners_drain_together(serve: Callable[..., Service]) -> None:
    service = serve("--port", "0", "--no-auth", "--ollama", "127.0.0.1:0")
    service.wait_for("serving nano at")
    url = service.wait_for("Ollama's interface at").rsplit(" ", 1)[1]
    body = {"model": "nano", "prompt": "Hello!"}
    with httpx.stream("POST", f"{url}/api/generate", json=body, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        service.process.send_signal(signal.SIGTERM)
        assert json.loads(list(lines)[-1])["done"] is True
    assert service.end() == 0, service.lines
    assert service.lines[-1] == "stopped"


@pytest.mark.check
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_directly_after_the_address_stops_it(
    serve: Callable[..., Service], number: signal.Signals
) -> None:
    service = serve("--port", "0", "--no-auth")
    service.wait_for("serving nano at")
    service.process.send_signal(number)
    assert service.process.wait(60) == 0
    service.end()
    assert service.lines[-1] == "stopped"


@pytest.mark.check
@pytest.mark.parametrize("drain", ["0", "1", "600"])
def test_requests_that_are_not_awaited_get_an_error(serve: Callable[..., Service], drain: str) -> None:
    service = serve("--port", "0", "--no-auth", "--drain", drain)
    url = service.wait_for("serving nano at").rsplit(" ", 1)[1]
    with ThreadPoolExecutor() as threads:
        streamed, whole = (
            threads.submit(httpx.post, f"{url}/chat/completions", json=LONG | each, timeout=60)
            for each in ({"max_tokens": 3000}, {"max_tokens": 3000, "stream": False})
        )
        until(lambda: httpx.get(url.removesuffix("/v1") + "/health").json()["running"] == 2)
        service.process.send_signal(signal.SIGINT)
        if drain != "0":
            service.wait_for("waiting for 2 requests; Ctrl-C again to stop now")
        if drain == "600":
            service.process.send_signal(signal.SIGINT)
        last = streamed.result().text.strip().splitlines()[-1]
        error = json.loads(last.removeprefix("data: "))["error"]
        assert (error["type"], error["code"]) == ("server_error", "server_stopping")
        assert (whole.result().status_code, whole.result().json()["error"]) == (503, error)
    assert service.end() == 0, service.lines
    assert service.lines[-1] == "stopped"
    assert not any("Traceback" in line or "ASGI" in line for line in service.lines), service.lines


@pytest.mark.check
def test_a_unix_socket_identifies_its_peer(serve: Callable[..., Service], tmp_path: Path) -> None:
    path = tmp_path / "agentrt.sock"
    service = serve("--uds", str(path))
    service.wait_for("serving nano on the socket")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://agentrt") as http:
        answer = http.post("/v1/chat/completions", json=LONG | {"stream": False, "max_tokens": 3}, timeout=60)
        assert answer.status_code == 200
    with pytest.raises(ConfigurationError, match="another server listens"), bind(ServerConfig(uds=path)):
        pass
    service.process.send_signal(signal.SIGTERM)
    assert service.end() == 0, service.lines
    assert not path.exists()


@pytest.mark.check
@pytest.mark.parametrize("address", ["socket", "port"])
def test_of_servers_that_start_together_on_one_address_one_serves(
    serve: Callable[..., Service], tmp_path: Path, address: str
) -> None:
    path = tmp_path / "agentrt.sock"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    options = ("--uds", str(path)) if address == "socket" else ("--port", port, "--no-auth")
    started = [serve(*options) for _ in range(3)]
    with ThreadPoolExecutor() as threads:
        serving = [threads.submit(service.wait_for, "serving nano") for service in started]
        failures = [each.exception(120) for each in serving]
    assert failures.count(None) == 1
    winner = started.pop(failures.index(None))
    for service in started:
        assert service.end() == 2
        assert "another server" in service.lines[-1] or "another --port" in service.lines[-1]
    if address == "socket":
        assert path.is_socket(), "those that ended left the one that serves its socket"
    winner.process.send_signal(signal.SIGTERM)
    assert winner.end() == 0, winner.lines
    assert not path.exists()


@pytest.mark.check
def test_settings_that_cannot_work(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        service = Service(*arguments)
        assert service.end() == 2, service.lines
        (line,) = service.lines
        return line

    assert "reachable from other machines" in refused("--host", "0.0.0.0", "--no-auth")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another --port" in refused("--port", str(taken.getsockname()[1]))
    (tmp_path / "file").write_text("x")
    assert "is not a socket" in refused("--uds", str(tmp_path / "file"))
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "tokens")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "file").write_bytes(b"\xff\xfe")
    for name in ("dangling", "file", "nowhere/tokens"):
        assert "the token file" in refused("--port", "0", "--token-file", str(tmp_path / name))
    assert "--served-model-name NAME=MODEL" in refused("--model", "nano", "--model", "nano")
    assert "Give --memory-budget-mib 4" in refused("--memory-budget-mib", "100", "--memory-mib", "200")
    assert "there is no model 'nan'" in refused("--model", "nano", "--model", "nan")


class Server:
    """A server of one folder, and a client."""

    def __init__(self, service: Service) -> None:
        self.service = service
        url = service.wait_for("serving nano at").rsplit(" ", 1)[1]
        self.http = httpx.Client(base_url=url, timeout=60)

    def kill(self) -> None:
        self.http.close()
        self.service.process.kill()
        self.service.end()

    def post(self, path: str, **body: Any) -> Any:
        body = {"max_tokens": 20, "max_output_tokens": 20, **body}
        return self.http.post(path, json=body).raise_for_status().json()

    def ask(self, context: str, text: str) -> str:
        answer = self.post(
            f"/contexts/{context}/chat/completions", messages=[{"role": "user", "content": text}]
        )
        return str(answer["choices"][0]["message"]["content"])

    def messages(self, context: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get(f"/contexts/{context}").json()["messages"]
        return found

    def contexts(self) -> set[str]:
        return {each["id"] for each in self.http.get("/contexts").json()["data"]}


@pytest.fixture
def start(serve: Callable[..., Service], tmp_path: Path) -> Iterator[Callable[[], Server]]:
    arguments = ["--port", "0", "--no-auth", "--memory-mib", "32", "--context-folder", str(tmp_path)]
    arguments += ["--background-max-load", "1"]  # that of other tests
    started: list[Server] = []

    def one() -> Server:
        started.append(Server(serve(*arguments)))
        return started[-1]

    yield one
    for server in started:
        server.http.close()


@pytest.mark.check
def test_conversations_go_on_after_kill_9(start: Callable[[], Server]) -> None:
    server = start()
    context = server.post("/contexts", system_prompt="You help with notes, mail and the calendar.")["id"]
    server.ask(context, "Hello!")
    response = server.post("/responses", input="Hello!")
    named = {"x-session-id": "thread 7"}
    server.http.post("/chat/completions", json={"messages": HELLO, "max_tokens": 2}, headers=named)
    listed, text = server.contexts(), server.messages(context)
    assert (len(text), len(listed)) == (3, 3)
    server.kill()

    server = start()
    assert server.contexts() == listed
    assert server.messages(context) == text
    assert server.http.get(f"/responses/{response['id']}").json() == response
    answer = server.ask(context, "Who are you?")
    asked = [*text, {"role": "user", "content": "Who are you?"}]
    stateless = server.post("/chat/completions", messages=asked)
    assert answer == stateless["choices"][0]["message"]["content"]
    assert server.messages(context) == [*asked, {"role": "assistant", "content": answer}]
    following = server.post("/responses", input="Who are you?", previous_response_id=response["id"])
    server.kill()

    server = start()
    assert len(server.messages(context)) == 5
    third = server.post("/responses", input="Thanks.", previous_response_id=following["id"])
    assert third["previous_response_id"] == following["id"]
    for path in (f"/responses/{third['id']}", f"/contexts/{context}"):
        assert server.http.delete(path).status_code == 200
    server.kill()

    server = start()
    for path in (f"/responses/{third['id']}", f"/contexts/{context}"):
        assert server.http.get(path).status_code == 404
    assert server.http.get(f"/responses/{following['id']}").json() == following


@pytest.mark.check
def test_kill_9_during_a_call_leaves_the_text_before_it(start: Callable[[], Server]) -> None:
    server = start()
    context = server.post("/contexts")["id"]
    server.ask(context, "Hello!")
    text = server.messages(context)
    body = LONG | {"max_tokens": 3000, "input": "Hello!"}
    with (
        server.http.stream("POST", f"/contexts/{context}/chat/completions", json=body) as streamed,
        server.http.stream("POST", "/responses", json=body) as responding,
    ):
        answers = [streamed.iter_lines(), responding.iter_lines()]
        next(answers[0])
        created = next(line for line in iter(answers[1].__next__, None) if line.startswith("data:"))
        server.service.process.kill()
        for lines in answers:
            with pytest.raises(httpx.TransportError):
                list(lines)
    server.kill()

    server = start()
    assert server.messages(context) == text
    id = json.loads(created.removeprefix("data:"))["response"]["id"]
    assert server.http.get(f"/responses/{id}").status_code == 404
    assert server.contexts() == {context}
    server.ask(context, "Who are you?")


@pytest.mark.check
def test_background_responses_go_on_after_kill_9(start: Callable[[], Server]) -> None:
    server = start()
    asked = {"input": "Hello!", "background": True, "ignore_eos": True, "max_output_tokens": 3000}
    ids = [server.post("/responses", **asked)["id"] for _ in range(6)]

    def read(id: str, after: int) -> Iterator[dict[str, Any]]:
        path = f"/responses/{id}?stream=true&starting_after={after}"
        with server.http.stream("GET", path) as streamed:
            for line in streamed.raise_for_status().iter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))

    before = list(itertools.islice(read(ids[0], -1), 6))
    assert before[-1]["type"] == "response.output_text.delta"
    server.kill()

    server = start()
    events = before + list(read(ids[0], before[-1]["sequence_number"]))
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == events[-1]["response"]["output"][0]["content"][0]["text"]
    for id in ids:
        (*_, last) = read(id, -1)
        assert last["type"] == "response.incomplete"
        assert server.http.get(f"/responses/{id}").json() == last["response"]


IN_PROCESS = """
import asyncio, json, sys
from pathlib import Path
from agentrt.runtime import *

async def main(runtime, asked):
    any_load = BackgroundConfig(conditions=BackgroundConditions(max_other_load=None))
    async with BackgroundService(runtime, any_load) as background:
        for _ in range(asked):
            job = await background.submit(
                [{"role": "user", "content": "Hello!"}], ignore_eos=True, max_tokens=3000
            )
            print(job.id, flush=True)
        if asked:
            async for event in job.events():
                print(json.dumps(event), flush=True)
        for job in await background.jobs():
            print(json.dumps(await job.result()), flush=True)

config = RuntimeConfig(context_folder=Path(sys.argv[1]), memory_bytes=32 * 2**20)
with LocalRuntime.open("nano", config) as runtime:
    asyncio.run(main(runtime, int(sys.argv[2])))
"""


@pytest.mark.check
def test_jobs_of_a_process_that_was_killed_are_the_servers_and_the_other_way_round(
    start: Callable[[], Server], tmp_path: Path
) -> None:
    def process(asked: int) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", IN_PROCESS, str(tmp_path), str(asked)]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)

    with process(asked=2) as submitting:
        assert submitting.stdout is not None
        ids = [submitting.stdout.readline().strip() for _ in range(2)]
        before = [json.loads(submitting.stdout.readline()) for _ in range(6)]
        submitting.kill()
    assert before[-1]["type"] == "response.output_text.delta"

    server = start()
    listed = server.http.get("/responses", params={"order": "asc"}).json()["data"]
    assert [each["id"] for each in listed] == ids
    path = f"/responses/{ids[1]}?stream=true&starting_after={before[-1]['sequence_number']}"
    lines = server.http.get(path, timeout=200).raise_for_status().text.splitlines()
    events = before + [
        json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")
    ]
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == events[-1]["response"]["output"][0]["content"][0]["text"]
    asked = {"input": "Hello!", "background": True, "ignore_eos": True, "max_output_tokens": 3000}
    ids.append(server.post("/responses", **asked)["id"])
    server.kill()

    with process(asked=0) as reading:
        assert reading.stdout is not None
        responses = [json.loads(line) for line in reading.stdout]
    assert [each["id"] for each in responses] == ids
    assert responses[1] == events[-1]["response"]
    assert {each["status"] for each in responses} == {"incomplete"}
