"""Streams that the server ends because it stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from agentrt.runtime.serving.http.config import ListenConfig
from tests.runtime.serving.http.serving import listening
from tests.runtime.serving.http.test_connection import read_all


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
    lines = interrupted("/api/chat", "application/x-ndjson", sent).splitlines()
    assert lines[0] == sent.strip()
    (error,) = (json.loads(line)["error"] for line in lines[1:])
    assert "the server has stopped" in error


@pytest.mark.parametrize("sent", ["data: {}\n\n", "data: {"])
def test_the_last_event_of_a_stream_in_openais_form_is_the_error(sent: str) -> None:
    *_, last = interrupted("/v1/chat/completions", "text/event-stream", sent).split("\n\n")[:-1]
    error: dict[str, Any] = json.loads(last.removeprefix("data: "))["error"]
    assert error["code"] == "server_stopping"
