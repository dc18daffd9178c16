"""The form of errors, which the path decides: a text on Ollama's routes, OpenAI's on all others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.http.test_connection import read_all

HOST = "host: localhost\r\n"
TOKEN = "authorization: Bearer " + "t" * 20 + "\r\n"
REFUSED = [
    (401, HOST, ""),
    (403, HOST + TOKEN + "origin: https://evil.example\r\n", ""),
    (421, "host: evil.example\r\n", ""),
    (413, HOST + TOKEN + "content-length: 20\r\n", ""),
    (413, HOST + TOKEN + "transfer-encoding: chunked\r\n", "14\r\n" + "x" * 20 + "\r\n0\r\n\r\n"),
    (408, HOST + TOKEN + "content-length: 5\r\n", "x"),
    (400, HOST + TOKEN + "transfer-encoding: chunked\r\n", "no chunk\r\n"),
]


def answered(server: Running, sent: str) -> tuple[int, Any]:
    """The status and the error of the answer to what a client sends."""
    with server.connect() as connection:
        connection.sendall(sent.encode())
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


@pytest.mark.parametrize(("status", "headers", "body"), REFUSED)
def test_the_path_decides(start: Callable[..., Running], status: int, headers: str, body: str) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20)]), max_body_bytes=10, body_timeout_s=0.2)
    for path in ("/api/body", "/body"):
        found, error = answered(server, f"POST {path} HTTP/1.1\r\n{headers}\r\n{body}")
        assert found == status
        if path == "/body":
            assert error.keys() == {"message", "type", "param", "code"}
        else:
            assert isinstance(error, str)


@pytest.mark.parametrize("sent", ["POST {} HTTP/1.1\r\nhost: lo", "POST {} HTTP/1.1\r\nno header\r\n\r\n"])
def test_the_path_of_a_head_that_is_incomplete_or_wrong(start: Callable[..., Running], sent: str) -> None:
    server = start(header_timeout_s=0.2)
    assert isinstance(answered(server, sent.format("/api/chat"))[1], str)
    assert answered(server, sent.format("/v1/chat/completions"))[1]["type"] == "invalid_request_error"
