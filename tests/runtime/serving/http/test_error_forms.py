"""The form of errors, which the path decides: a text on Ollama's routes, OpenAI's on all others."""

from __future__ import annotations

import pytest
from starlette.exceptions import HTTPException

from agentrt import errors
from agentrt.runtime.serving.http.errors import ApiError, to_api_error
from tests.runtime.serving.http.serving import MAIL, TOKENS, Start
from tests.runtime.serving.http.test_connection import answer_to

HOST = "host: localhost\r\n"
TOKEN = f"authorization: {MAIL['authorization']}\r\n"
BAD, SERVER = "invalid_request_error", "server_error"


@pytest.mark.usefixtures("heads_timed_from_their_first_byte")
@pytest.mark.parametrize(
    ("status", "request_text"),
    [
        (401, f"{HOST}\r\n"),
        (403, f"{HOST}{TOKEN}origin: https://evil.example\r\n\r\n"),
        (421, "host: evil.example\r\n\r\n"),
        (413, f"{HOST}{TOKEN}content-length: 20\r\n\r\n"),
        (413, f"{HOST}{TOKEN}transfer-encoding: chunked\r\n\r\n14\r\n{'x' * 20}\r\n0\r\n\r\n"),
        (408, f"{HOST}{TOKEN}content-length: 5\r\n\r\nx"),
        (400, f"{HOST}{TOKEN}transfer-encoding: chunked\r\n\r\nno chunk\r\n"),
        (408, "host: lo"),
        (400, "no header\r\n\r\n"),
    ],
)
def test_the_path_decides(start: Start, status: int, request_text: str) -> None:
    server = start(tokens=TOKENS, max_body_bytes=10, body_timeout_s=0.2, header_timeout_s=0.2)
    found, error = answer_to(server, f"POST /body HTTP/1.1\r\n{request_text}".encode())
    assert (found, error.keys()) == (status, {"message", "type", "param", "code"})
    found, error = answer_to(server, f"POST /api/body HTTP/1.1\r\n{request_text}".encode())
    assert (found, type(error)) == (status, str)


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (errors.InvalidRequestError("stop", "x. Do."), 400, BAD, "invalid_value"),
        (errors.PromptTooLongError(9, 8, "it", "Shorten."), 400, BAD, "context_length_exceeded"),
        (errors.ContextNotFoundError("ctx_1"), 404, BAD, "context_not_found"),
        (errors.ContextBusyError("ctx_1"), 409, BAD, "context_busy"),
        (errors.ContextQuotaError("per_app", 1), 429, "insufficient_quota", "context_quota_exceeded"),
        (errors.ContextStoreError("/folder is full. Free."), 503, SERVER, "context_store_failed"),
        (errors.OverloadedError("full. Wait."), 429, "rate_limit_error", "rate_limit_exceeded"),
        (errors.RuntimeClosedError("closed. Open."), 503, SERVER, None),
        (errors.ModelBudgetError("m", 2, 3, 2), 503, SERVER, "model_unavailable"),
        (errors.ModelTooLargeError("m", 4, 3), 503, SERVER, "model_too_large"),
        (errors.ModelLoadError("m", "/folder is gone. Copy it."), 503, SERVER, "model_load_failed"),
        (errors.EngineFailedError("failed"), 500, SERVER, None),
        (HTTPException(404), 404, BAD, "unknown_url"),
        (ValueError("/folder"), 500, SERVER, None),
    ],
)
def test_every_error_has_its_status(
    error: Exception, status: int, kind: str, code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    answer = to_api_error(error)
    assert (answer.status_code, answer.kind, answer.code) == (status, kind, code)
    assert set(answer.body()["error"]) == {"message", "type", "param", "code"}
    assert "/folder" not in answer.detail, "clients learn no path"
    assert ("/folder" in caplog.text) is ("/folder" in str(error) and isinstance(error, errors.AgentRTError))
    passes = isinstance(error, errors.OverloadedError | errors.ModelBudgetError)
    assert ("retry-after" in (answer.headers or {})) is passes


def test_an_api_error_is_unchanged() -> None:
    answer = ApiError(418, "x")
    assert to_api_error(answer) is answer
