"""How a process serves: its memory, and the streams that end because the server stops."""

from __future__ import annotations

import asyncio
import json
import platform
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.run import give_back_freed, share_arenas
from tests.patience import PATIENCE_S
from tests.runtime.serving.http.serving import listening, read_all

THREADS = """
import ctypes, threading
from agentrt.runtime.serving.http.run import share_arenas
{call}
barrier = threading.Barrier(9)
def allocate():
    held = bytearray(50_000)
    barrier.wait()
    barrier.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
barrier.wait()
c = ctypes.CDLL(None)
c.malloc_info(0, ctypes.c_void_p.in_dll(c, "stdout"))
c.fflush(None)
barrier.wait()
"""


def printed(program: str) -> str:
    """What a process prints that runs this."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")


@pytest.mark.slow
@on_glibc
def test_many_threads_share_two_arenas() -> None:
    assert printed(THREADS.format(call="share_arenas()")).count("<heap nr=") == 2
    unbounded = printed(THREADS.format(call="")).count("<heap nr=")
    assert unbounded > 2, "glibc shares them by itself; nothing is tested"


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    share_arenas()
    asyncio.run(give_back_freed())


FREED = """
import asyncio
from pathlib import Path
from agentrt.runtime.serving.http.run import give_back_freed
def private_mib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon:"))
blocks = [bytes(20_000) for _ in range(5000)]
blocks = blocks[::10]
before = private_mib()
asyncio.run(give_back_freed())
print(before - private_mib())
"""


@pytest.mark.slow
@on_glibc
def test_freed_memory_between_what_lives_long_is_given_back() -> None:
    assert int(printed(FREED)) > 40  # of 100 MB, without the pages that blocks share


SERVED = """
import gc, os, signal, socket
from fastapi import FastAPI
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.run import serve
def ready():
    print(gc.get_freeze_count(), len(gc.get_objects()))
    os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, lambda *_: None)  # which uvicorn raises again
with socket.create_server(("127.0.0.1", 0)) as listener:
    serve(FastAPI(), ListenConfig(port=0), [listener], ready, print)
"""


def test_a_collection_leaves_out_what_was_there_when_the_server_started() -> None:
    frozen, others = map(int, printed(SERVED).split())
    assert frozen > 100 * others


def test_a_server_gives_freed_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = threading.Event()

    async def give_back() -> None:
        given_back.set()

    monkeypatch.setattr("agentrt.runtime.serving.http.run.give_back_freed", give_back)
    monkeypatch.setattr("agentrt.runtime.serving.http.run.TRIM_S", 0.01)
    with listening(FastAPI(), ListenConfig(port=0)) as server:
        assert not given_back.wait(0.1), "nothing was freed"
        httpx.get(server.url)
        assert given_back.wait(PATIENCE_S)


def test_an_idle_server_does_not_wake_up_within_a_second_and_its_answers_are_dated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "agentrt.runtime.serving.http.run.TRIM_S", 1e6
    )  # not due, however slow the machine is
    app = FastAPI()

    @app.get("/timers")
    async def timers() -> list[float]:
        loop: Any = asyncio.get_running_loop()
        return [timer.when() - loop.time() for timer in loop._scheduled if not timer.cancelled()]

    with listening(app, ListenConfig(port=0)) as server:
        answer = httpx.get(f"{server.url}/timers")
    (date,) = answer.headers.get_list("date")
    assert abs(parsedate_to_datetime(date).timestamp() - time.time()) < PATIENCE_S
    assert answer.json()
    assert all(seconds > 1 for seconds in answer.json())


def interrupted(path: str, media_type: str, sent: str) -> str:
    """The body of a stream that has sent this, and then nothing, until the server stops."""
    app = FastAPI()

    @app.get(path)
    async def endless() -> StreamingResponse:
        async def body() -> AsyncGenerator[str, None]:
            yield sent
            await asyncio.Event().wait()

        return StreamingResponse(body(), media_type=media_type)

    received = b""
    with listening(app, ListenConfig(port=0, drain_s=0)) as server:
        connection = server.connect()
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        while sent.encode() not in received:
            received += connection.recv(65536)
    received += read_all(connection)
    connection.close()
    return received.split(b"\r\n\r\n", 1)[1].decode()


@pytest.mark.parametrize("sent", ['{"done": false}\n', '{"done": fal'])
def test_the_last_line_of_a_stream_in_ollamas_form_is_the_error(sent: str) -> None:
    first, last = interrupted("/api/chat", "application/x-ndjson", sent).splitlines()
    assert first == sent.strip()
    assert "the server has stopped" in json.loads(last)["error"]


@pytest.mark.parametrize("sent", ["data: {}\n\n", "data: {"])
def test_the_last_event_of_a_stream_in_openais_form_is_the_error(sent: str) -> None:
    *_, last = interrupted("/v1/chat/completions", "text/event-stream", sent).split("\n\n")[:-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "server_stopping"


def test_the_last_event_of_a_stream_in_anthropics_form_is_the_error() -> None:
    *_, last = interrupted("/v1/messages", "text/event-stream", "data: {}\n\n").split("\n\n")[:-1]
    name, data = last.splitlines()
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: "))["error"]["type"] == "overloaded_error"
