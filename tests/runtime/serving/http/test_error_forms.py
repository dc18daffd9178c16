"""The form of errors, which the path decides: a text on Ollama's routes, OpenAI's on all others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from agentrt import errors
from agentrt.runtime.serving.http.errors import ApiError, to_api_error
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running, Start
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
def test_the_path_decides(start: Start, status: int, headers: str, body: str) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20)]), max_body_bytes=10, body_timeout_s=0.2)
    for path in ("/api/body", "/body"):
        found, error = answered(server, f"POST {path} HTTP/1.1\r\n{headers}\r\n{body}")
        assert found == status
        if path == "/body":
            assert error.keys() == {"message", "type", "param", "code"}
        else:
            assert isinstance(error, str)


@pytest.mark.parametrize("sent", ["POST {} HTTP/1.1\r\nhost: lo", "POST {} HTTP/1.1\r\nno header\r\n\r\n"])
def test_the_path_of_a_head_that_is_incomplete_or_wrong(start: Start, sent: str) -> None:
    server = start(header_timeout_s=0.2)
    assert isinstance(answered(server, sent.format("/api/chat"))[1], str)
    assert answered(server, sent.format("/v1/chat/completions"))[1]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (errors.InvalidRequestError("stop", "x. Do."), 400, "invalid_request_error", "invalid_value"),
        (
            errors.PromptTooLongError(9, 8, "it", "Shorten."),
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (errors.ContextNotFoundError("ctx_1"), 404, "invalid_request_error", "context_not_found"),
        (errors.ContextBusyError("ctx_1"), 409, "invalid_request_error", "context_busy"),
        (
            errors.ContextQuotaError("contexts_per_app", 1),
            429,
            "insufficient_quota",
            "context_quota_exceeded",
        ),
        (errors.ContextStoreError("full. Free."), 503, "server_error", "context_store_failed"),
        (errors.OverloadedError("full. Wait."), 429, "rate_limit_error", "rate_limit_exceeded"),
        (errors.RuntimeClosedError("closed. Open."), 503, "server_error", None),
        (errors.ModelBudgetError("m", 2, 3, 2), 503, "server_error", "model_unavailable"),
        (errors.ModelTooLargeError("m", 4, 3), 503, "server_error", "model_too_large"),
        (errors.ModelLoadError("m", "gone. Copy it."), 503, "server_error", "model_load_failed"),
        (errors.EngineFailedError("secret"), 500, "server_error", None),
        (HTTPException(404), 404, "invalid_request_error", "unknown_url"),
        (ValueError("secret"), 500, "server_error", None),
    ],
)
def test_every_error_has_its_status(error: Exception, status: int, kind: str, code: str | None) -> None:
    answer = to_api_error(error)
    assert (answer.status_code, answer.kind, answer.code) == (status, kind, code)
    assert set(answer.body()["error"]) == {"message", "type", "param", "code"}
    assert "secret" not in answer.detail or isinstance(error, errors.AgentRTError)


def test_only_errors_that_pass_say_when_to_try_again() -> None:
    assert "retry-after" in (to_api_error(errors.ModelBudgetError("m", 2, 3, 2)).headers or {})
    assert "retry-after" not in (to_api_error(errors.ModelTooLargeError("m", 4, 3)).headers or {})


def test_an_api_error_is_unchanged() -> None:
    answer = ApiError(418, "x")
    assert to_api_error(answer) is answer


@pytest.mark.parametrize(
    "error",
    [
        errors.ContextStoreError("no space in /folder/contexts. Delete something."),
        errors.ModelLoadError("m", "there is no /folder/m.gguf. Copy it."),
    ],
)
def test_clients_learn_no_path_and_the_log_has_it(
    error: errors.AgentRTError, caplog: pytest.LogCaptureFixture
) -> None:
    assert "/folder" not in to_api_error(error).detail
    assert "/folder" in caplog.text
