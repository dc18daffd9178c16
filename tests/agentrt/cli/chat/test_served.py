"""Chats with the model of a running ``agentrt serve``, which they find by its file."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from rich.console import Console

from agentrt import Priority, priority
from agentrt.cli.chat.assistant import Assistant, open_assistant
from agentrt.cli.chat.opener import ModelOpener
from agentrt.cli.chat.served import find_served, open_served
from agentrt.cli.chat.session import ChatSession
from agentrt.cli.running_server import found_by_chat, server_file
from agentrt.errors import RequestError, RuntimeClosedError
from agentrt.examples.assistant.needs import needs_of
from agentrt.examples.chat.conversation import Conversation
from agentrt.examples.chat.served import ServedChat, ServedModel
from agentrt.runtime.model.directory import find_model
from tests.patience import in_event_loop

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The state folder of a user with no server."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@contextlib.contextmanager
def serving(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``agentrt serve`` on nano; it is killed at the end if it still runs."""
    command = [sys.executable, "-m", "agentrt", "serve", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert any(line.startswith("serving ") for line in server.stderr), server.wait()
            yield server
        finally:
            server.kill()


@contextlib.contextmanager
def assistant(runner: asyncio.Runner) -> Iterator[Assistant]:
    opened = open_assistant(
        "nano", runner, ModelOpener(), data=None, max_tokens=None, weather_delay=0, why_not=None
    )
    with opened as assistant:
        yield assistant


@pytest.fixture
def never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_runtime(*_: object) -> None:
        raise AssertionError("the model is opened in this process")

    monkeypatch.setattr("agentrt.examples.assistant.model.open_runtime", open_runtime)


@pytest.mark.slow
@pytest.mark.usefixtures("never_opened")
def test_a_conversation_in_a_server_that_is_killed_meanwhile() -> None:
    printed = io.StringIO()
    console = Console(file=printed, width=300, highlight=False, emoji=False)
    with serving("--port", "0") as server, asyncio.Runner() as runner, assistant(runner) as opened:
        assert stat.S_IMODE(server_file().stat().st_mode) == 0o600
        conversation = Conversation(opened.agent, opened.runtime.context_length)

        def lines() -> Iterator[str]:
            yield "Hello!"
            yield "/stats"
            server.kill()
            server.wait()
            yield "Hello!"
            yield "What is the weather in Oslo?"  # no model is needed for that

        waiting = lines()

        def read() -> str:
            try:
                return next(waiting)
            except StopIteration:
                raise EOFError from None

        session = ChatSession(opened, conversation, console, read)
        session.introduce()
        session.run()
    shown = printed.getvalue()
    address = json.loads(server_file().read_text())["address"]
    assert f"nano is open in agentrt serve at {address}, which answers." in shown
    assert "In Oslo it is" in shown
    assert f"KV cache:   that of agentrt serve at {address}" in shown
    assert "agentrt serve does not answer any more: it has ended" in shown
    assert "/model nano opens the model here" in shown
    assert [turn[0].text for turn in conversation.turns] == ["Hello!", "What is the weather in Oslo?"]
    assert conversation.totals.answer_tokens > 0
    assert find_served("nano") is None, "the file of a killed server"


@pytest.mark.slow
def test_calls_and_json_from_a_server_on_a_unix_socket(tmp_path: Path) -> None:
    async def ask() -> tuple[AIMessage, Sequence[str]]:
        chat = await open_served("tiny")
        assert chat is not None
        assert chat.model_id == "nano"
        forced = await chat.bind_tools([TOOL], tool_choice="required").ainvoke("Weather in Oslo?")
        return forced, await needs_of(chat, "list all of it")

    options = ("--uds", str(tmp_path / "s"), "--token-file", str(tmp_path / "tokens"))
    with serving(*options, "--served-model-name", "tiny") as server:
        called, needs = asyncio.run(ask())
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0
    assert [call["name"] for call in called.tool_calls] == ["get_weather"]
    assert set(called.tool_calls[0]["args"]) == {"city"}
    assert called.response_metadata["finish_reason"] == "tool_calls"
    assert needs
    assert not server_file().exists()


def described(*models: tuple[Path, str], address: str = "http://127.0.0.1:9") -> dict[str, Any]:
    listed = [{"path": str(path), "names": [name]} for path, name in models]
    return {"address": address, "token": None, "token_file": None, "models": listed}


def test_a_server_has_a_model_if_it_has_the_same_file(state: Path) -> None:
    model, other = state / "model.gguf", state / "other.gguf"
    model.touch()
    other.touch()
    (state / "link.gguf").symlink_to(model)
    with found_by_chat() as tell:
        tell(described((model, "nano"), (find_model("nano").resolve(), "coder")))
        names = {name: found and found.name for name in ("nano", str(other)) for found in [find_served(name)]}
        assert names == {"nano": "coder", str(other): None}
        linked, named = find_served(str(state / "link.gguf")), find_served("coder")
        assert linked is not None
        assert (linked.name, linked.is_nano) == ("nano", False)
        assert named is not None
        assert (named.name, named.is_nano) == ("coder", True)
    with found_by_chat() as tell:
        tell(described((model, "nano")))
        assert find_served("nano") is None


def test_the_first_of_two_servers_is_found_and_the_second_leaves_its_file(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nano = find_model("nano").resolve()
    with found_by_chat() as first:
        first(described((nano, "first")))
        with found_by_chat() as second:
            second(described((nano, "second")))
        assert "started before this one" in capsys.readouterr().err
        found = find_served("nano")
        assert found is not None
        assert found.name == "first"


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_a_server_that_cannot_write_its_file_serves_all_the_same(
    monkeypatch: pytest.MonkeyPatch, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "file"))
    with found_by_chat() as tell:
        tell(described())
    assert "agentrt chat does not find this server" in capsys.readouterr().err


@in_event_loop
async def test_a_server_that_nothing_listens_for_is_ignored() -> None:
    with found_by_chat() as tell:
        tell(described((find_model("nano").resolve(), "nano")))  # port 9 is closed
        assert find_served("nano") is not None
        assert await open_served("nano") is None


@contextlib.asynccontextmanager
async def answering(reply: bytes, status: str = "200 OK") -> AsyncIterator[tuple[ServedChat, list[Any]]]:
    """A server with one answer, which ends its connection; the bodies that it has received."""
    bodies: list[Any] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        bodies.append(json.loads(await reader.readexactly(length)))
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(reply) + 1}\r\n\r\n".encode() + reply)
        if not reply.endswith(b"half"):
            writer.write(b"\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        served = ServedModel("coder", False, f"http://127.0.0.1:{port}", None)
        yield (
            ServedChat(
                model="coder",
                model_id="coder",
                address=served.address,
                context_length=2048,
                max_tokens=8,
                find=lambda model: served,
            ),
            bodies,
        )


def event(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    body = json.dumps({"model": "coder", "choices": [choice], "usage": None}, ensure_ascii=False)
    return f"data: {body}\n\n".encode()


@in_event_loop
async def test_what_is_sent_and_what_comes() -> None:
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    end = f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n"
    reply = event("a\u2028b") + event("", "stop") + end.encode()
    async with answering(reply) as (chat, bodies):
        with priority(Priority.PROACTIVE):
            answer = await chat.ainvoke([HumanMessage("Hi")], max_tokens=2)
    assert answer.text == "a\u2028b"
    assert answer.usage_metadata == {
        "input_tokens": 7,
        "output_tokens": 3,
        "total_tokens": 10,
        "input_token_details": {"cache_read": 5},
    }
    (body,) = bodies
    assert (body["model"], body["priority"], body["max_tokens"]) == ("coder", 10, 2)
    assert body["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("400 Bad Request", RequestError),
        ("401 Unauthorized", RuntimeClosedError),
        ("429 Too Many Requests", RequestError),
        ("200 OK", RequestError),
    ],
)
def test_a_refusal_says_what_the_server_says(status: str, kind: type[Exception]) -> None:
    async def refused() -> None:
        body = json.dumps({"error": {"message": "n: is wrong. Give 1", "param": "n", "code": None}})
        reply = f"data: {body}\n" if status == "200 OK" else body
        async with answering(reply.encode(), status) as (chat, _):
            with pytest.raises(kind, match=r"n: is wrong\. Give 1"):
                await chat.ainvoke("Hi")

    asyncio.run(refused())


@pytest.mark.parametrize("reply", [event("It is"), event("It is") + b"half"])
def test_an_answer_that_is_broken_off_is_an_error(reply: bytes) -> None:
    async def broken_off() -> None:
        async with answering(reply) as (chat, _):
            with pytest.raises(RuntimeClosedError, match="/model coder opens the model here"):
                await chat.ainvoke("Hi")

    asyncio.run(broken_off())
