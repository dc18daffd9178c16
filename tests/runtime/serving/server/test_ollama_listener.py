"""Ollama's interface at its own listener: what the documentation of Ollama has clients send, by curl."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.priority import Priority
from agentrt.runtime import EmbeddingModel, LocalRuntime
from agentrt.runtime.pool.model_pool import ModelPool, PoolConfig
from agentrt.runtime.pool.pooled_model import PooledModel
from agentrt.runtime.serving.http.admission import FREE_BYTES
from agentrt.runtime.serving.http.identity import Tokens
from agentrt.runtime.serving.server import ServerConfig, bind
from agentrt.runtime.serving.server.ollama_listener import bind_ollama
from tests.patience import until
from tests.runtime.pool.conftest import bert, bert_folder
from tests.runtime.serving.http.serving import MAIL, NOTES, TOKENS, Running, Start
from tests.runtime.serving.server.conftest import HELLO, running
from tests.runtime.serving.server.test_several_models import CONFIG
from tests.runtime.serving.server.test_status import samples_in

__all__ = ["bert", "bert_folder"]

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "format": {"type": "string", "enum": ["metric"]}},
            "required": ["city"],
        },
    },
}
AGE = {
    "type": "object",
    "properties": {"old": {"type": "boolean"}, "free": {"type": "boolean"}},
    "required": ["old", "free"],
    "additionalProperties": False,  # else the small model never ends
}
EVERY_OPTION: dict[str, Any] = {
    "num_keep": 5, "seed": 42, "num_predict": 10, "top_k": 20, "top_p": 0.9, "min_p": 0.0, "typical_p": 0.7,
    "repeat_last_n": 33, "temperature": 0.8, "repeat_penalty": 1.2, "presence_penalty": 1.5,
    "frequency_penalty": 1.0, "mirostat": 1, "mirostat_tau": 0.8, "mirostat_eta": 0.6,
    "penalize_newline": True, "stop": ["\n", "user:"], "numa": False, "num_ctx": 1024, "num_batch": 2,
    "num_gpu": 1, "main_gpu": 0, "low_vram": False, "vocab_only": False, "use_mmap": True, "use_mlock": False,
    "num_thread": 8,
}  # fmt: skip
SHORT = {"options": {"num_predict": 6}}


@pytest.fixture
def pool() -> Iterator[ModelPool]:
    with ModelPool([PooledModel.find("nano", CONFIG)], PoolConfig(idle_unload_s=600)) as pool:
        pool.open_first()
        yield pool


@pytest.fixture
def unloading(pool: ModelPool) -> Iterator[Running]:
    """A server that can unload its model."""
    with running(pool) as server:
        yield server


def curl(url: str, *arguments: str) -> str:
    command = ["curl", "--silent", "--show-error", url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def lines_of(printed: str) -> list[Any]:
    return [json.loads(line) for line in printed.splitlines()]


JSON_TYPE = ("-H", "Content-Type: application/json")
ASKED: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("generate", {"prompt": "Why is the sky blue?", **SHORT}, ()),
    ("generate", {"prompt": "Why is the sky blue?", "stream": False, **SHORT}, ()),
    ("generate", {"prompt": "How old?", "stream": False, "format": AGE}, JSON_TYPE),
    ("generate", {"prompt": "Which colors? In JSON.", "format": "json", "stream": False, **SHORT}, ()),
    ("generate", {"prompt": "[INST] Why? [/INST]", "raw": True, "stream": False, **SHORT}, ()),
    ("generate", {"prompt": "Why?", "options": {"seed": 123, "num_predict": 6}}, ()),
    ("generate", {"prompt": "Why?", "stream": False, "options": EVERY_OPTION}, ()),
    ("chat", {"messages": HELLO, **SHORT}, ()),
    ("chat", {"messages": HELLO, "stream": False, **SHORT}, ()),
    ("chat", {"messages": HELLO, "tools": [WEATHER], "stream": True, **SHORT}, ()),
    ("chat", {"messages": HELLO, "format": AGE, "stream": False, "options": {"temperature": 0}}, JSON_TYPE),
    ("chat", {"messages": [*HELLO, {"role": "assistant", "content": "Hi."}, *HELLO], **SHORT}, ()),
    ("chat", {"messages": HELLO, "options": {"seed": 101, "temperature": 0, "num_predict": 6}}, ()),
]


@pytest.mark.needs("curl")
@pytest.mark.parametrize(("route", "body", "headers"), ASKED)
def test_what_is_asked_is_answered(
    server: Running, route: str, body: dict[str, Any], headers: tuple[str, ...]
) -> None:
    text = json.dumps({"model": "nano", **body})
    lines = lines_of(curl(f"{server.ollama_url}/api/{route}", *headers, "-d", text))
    assert [line["done"] for line in lines] == [*[False] * (len(lines) - 1), True], lines
    assert (len(lines) > 1) is (body.get("stream") is not False)
    answers = [line["message"]["content"] if route == "chat" else line["response"] for line in lines]
    assert "".join(answers) or body.get("raw")
    if body.get("format") is AGE:
        assert json.loads(answers[0]).keys() == {"old", "free"}
    assert lines[-1]["eval_count"] > 0


@pytest.mark.needs("curl")
@pytest.mark.parametrize(
    ("route", "nothing"), [("generate", {}), ("chat", {"messages": []})], ids=["generate", "chat"]
)
def test_a_model_is_unloaded_and_loaded(unloading: Running, route: str, nothing: dict[str, Any]) -> None:
    def send(**fields: Any) -> Any:
        (line,) = lines_of(
            curl(
                f"{unloading.ollama_url}/api/{route}",
                "-d",
                json.dumps({"model": "nano", **nothing, **fields}),
            )
        )
        assert line["message"]["content"] == "" if route == "chat" else line["response"] == ""
        assert line["done"] is True
        return line["done_reason"]

    def loaded() -> list[Any]:
        models: list[Any] = json.loads(curl(f"{unloading.ollama_url}/api/ps"))["models"]
        return models

    (listed,) = loaded()
    assert (listed["name"], listed["size"] > 0, listed["size_vram"]) == ("nano", True, 0)
    assert 500 < (datetime.fromisoformat(listed["expires_at"]) - datetime.now(UTC)).total_seconds() < 600
    for zero in (0, "0", "0s", 0.0):
        assert send(keep_alive=zero) == "unload"
        assert loaded() == []
        assert send(keep_alive=zero) == "unload", "it is not loaded to be unloaded"
        assert send() == "load"
        assert len(loaded()) == 1
    for longer in ("5m", -1, "10s", 0.5):
        assert send(keep_alive=longer) == "load"
    assert len(loaded()) == 1


def test_a_model_that_the_pool_does_not_own_stays_loaded(server: Running, runtime: LocalRuntime) -> None:
    answer = httpx.post(f"{server.ollama_url}/api/generate", json={"model": "nano", "keep_alive": 0})
    assert answer.json()["done_reason"] == "load"
    assert json.loads(httpx.get(f"{server.ollama_url}/api/ps").text)["models"][0]["expires_at"][:4] == "9999"


def test_the_owner_alone_unloads(start: Start) -> None:
    """Another app could make all others wait for the model, again and again."""
    server = start(tokens=TOKENS)
    url, body = f"{server.ollama_url}/api/generate", {"model": "nano", "keep_alive": 0}
    refused = httpx.post(url, json=body, headers=NOTES)
    assert (refused.status_code, "the owner's token" in refused.json()["error"]) == (403, True)
    assert httpx.post(url, json=body, headers=MAIL).status_code == 200
    assert httpx.post(url, json={"model": "nano"}, headers=NOTES).status_code == 200


@pytest.mark.needs("curl")
def test_models_are_listed_shown_and_there(server: Running) -> None:
    url = server.ollama_url
    (listed,) = json.loads(curl(f"{url}/api/tags"))["models"]
    assert listed["name"] == "nano"
    assert json.loads(curl(f"{url}/api/version"))["version"]
    named = '{"model": "nano"}'
    shown = json.loads(curl(f"{url}/api/show", "-d", named))
    assert shown.keys() >= {"modelfile", "parameters", "template", "details", "model_info", "capabilities"}
    assert lines_of(curl(f"{url}/api/pull", "-d", named)) == [
        {"status": "pulling manifest"},
        {"status": "success"},
    ]
    whole = curl(f"{url}/api/pull", "-d", '{"model": "nano:latest", "stream": false}')
    assert json.loads(whole) == {"status": "success"}
    assert curl(url) == "Ollama is running"
    assert curl(url, "--head").startswith("HTTP/1.1 200 OK")


@pytest.mark.needs("curl")
def test_texts_are_embedded(runtime: LocalRuntime, bert: EmbeddingModel) -> None:
    with running(runtime, bert) as server:
        url = f"{server.ollama_url}/api"
        for given, number in (("Why?", 1), (["Why?", "How?"], 2)):
            text = json.dumps({"model": "tiny-bert", "input": given})
            assert len(json.loads(curl(f"{url}/embed", "-d", text))["embeddings"]) == number
        older = curl(f"{url}/embeddings", "-d", '{"model": "tiny-bert", "prompt": "An article"}')
        assert len(json.loads(older)["embedding"]) > 1
        names = [each["name"] for each in json.loads(curl(f"{url}/ps"))["models"]]
        assert names == ["nano", "tiny-bert"]
        assert json.loads(curl(f"{url}/pull", "-d", '{"model": "tiny-bert", "stream": false}'))


REFUSED = [
    ("create", ("-d", '{"model": "mario", "from": "nano", "system": "You are Mario."}')),
    ("create", ("-d", '{"model": "mine", "files": {"a.gguf": "sha256:00"}}')),
    ("copy", ("-d", '{"source": "nano", "destination": "copy"}')),
    ("delete", ("-X", "DELETE", "-d", '{"model": "nano"}')),
    ("push", ("-d", '{"model": "me/nano:latest"}')),
    ("blobs/sha256:00", ("-T", __file__, "-X", "POST")),
]


@pytest.mark.needs("curl")
@pytest.mark.parametrize(("path", "arguments"), REFUSED)
def test_what_changes_models_is_refused_by_name(
    server: Running, path: str, arguments: tuple[str, ...]
) -> None:
    printed = curl(f"{server.ollama_url}/api/{path}", *arguments, "--write-out", "\n%{http_code}")
    body, status = printed.split("\n")
    assert status == "403"
    assert json.loads(body)["error"].startswith(f"/api/{path} is not served: ")


@pytest.mark.needs("curl")
def test_a_blob_is_not_there(server: Running) -> None:
    assert curl(f"{server.ollama_url}/api/blobs/sha256:00", "--head").startswith("HTTP/1.1 403")


@pytest.mark.parametrize("stream", [True, False])
def test_no_client_makes_the_server_download(server: Running, stream: bool) -> None:
    body = {"model": "owner/model", "stream": stream}
    answer = httpx.post(f"{server.ollama_url}/api/pull", json=body)
    assert answer.status_code == 404
    assert "Run 'agentrt pull OWNER/NAME'" in answer.json()["error"]


OLLAMAS = ("chat", "generate", "embed", "embeddings", "ps", "pull", "show", "tags", "version", "create")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_first_listener_has_none_of_ollamas_routes(server: Running, method: str) -> None:
    for route in OLLAMAS:
        answer = httpx.request(method, f"{server.url}/api/{route}", json={"model": "nano"})
        assert answer.status_code == 404
    assert "Ollama" not in httpx.get(server.url).text
    assert "/api/" not in httpx.get(f"{server.url}/openapi.json").text


def test_ollamas_listener_has_none_of_the_other_routes(server: Running) -> None:
    for path in ("/v1/models", "/health", "/metrics", "/live/events"):
        assert httpx.get(server.ollama_url + path).status_code == 404


def test_what_both_listeners_share(start: Start) -> None:
    """Limits hold for both together, and responses of both are counted."""
    server = start(max_requests=1)
    places = server.admission.requests[Priority.REACTIVE]
    assert places.take("local")
    short = {"model": "nano", "prompt": "Hello!", "stream": False, **SHORT}
    assert httpx.post(f"{server.ollama_url}/api/generate", json=short).status_code == 429
    places.give_back("local")
    assert httpx.post(f"{server.ollama_url}/api/generate", json=short).status_code == 200
    counted = samples_in(httpx.get(f"{server.url}/metrics").text)
    assert any("/api/generate" in labels for labels in counted), counted


def test_bytes_that_are_held_at_one_listener_are_held_at_both(start: Start) -> None:
    server = start(max_held_bytes=400_000, max_body_bytes=200_000)
    headers = ("host: localhost", "content-type: application/json", "content-length: 200000")
    head = "\r\n".join(("POST {} HTTP/1.1", *headers, "", ""))
    with server.connect() as first, server.connect() as second:
        for connection in (first, second):
            connection.sendall(head.format("/v1/chat/completions").encode())
        with server.connect("/api/") as third:
            until(lambda: server.admission.held_bytes == 2 * (200_000 - FREE_BYTES))
            third.sendall(head.format("/api/chat").encode())
            assert third.recv(12) == b"HTTP/1.1 429"


@pytest.mark.parametrize("bound", ["tcp", "unix"])
def test_the_host_is_checked_at_each_listener(start: Start, bound: str, tmp_path: Path) -> None:
    """No browser connects to a Unix socket, so that its server checks no host: the other listener does."""
    server = start(**({"uds": tmp_path / "socket"} if bound == "unix" else {}))
    answer = httpx.get(f"{server.ollama_url}/api/tags", headers={"host": "evil.example"})
    assert answer.status_code == 421
    assert httpx.get(f"{server.ollama_url}/api/tags").status_code == 200


def test_pages_that_are_allowed_are_allowed_at_both(start: Start) -> None:
    server = start(cors_origins=frozenset(("https://chat.example",)), tokens=Tokens([("mine", "t" * 20)]))
    headers = {"origin": "https://chat.example", "authorization": "Bearer " + "t" * 20}
    answer = httpx.get(f"{server.ollama_url}/api/tags", headers=headers)
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"


def test_addresses_that_cannot_be() -> None:
    config = ServerConfig(port=0)
    with bind(config) as first:
        port = first.getsockname()[1]
        taken = config.model_copy(update={"port": port})
        with pytest.raises(ConfigurationError, match=r"--ollama: another .* --ollama HOST:PORT\."):
            bind_ollama(taken, first).__enter__()
        elsewhere = config.model_copy(update={"host": "127.0.0.2", "port": port})
        with pytest.raises(ConfigurationError, match=f"--ollama: --port is {port}, too"):
            bind_ollama(elsewhere, first).__enter__()
        with socket.create_server(("127.0.0.2", port)):
            pass  # it was closed
        with pytest.raises(ConfigurationError, match=r"--ollama: host 0\.0\.0\.0 is reachable"):
            bind_ollama(config.model_copy(update={"host": "0.0.0.0"}), first).__enter__()
