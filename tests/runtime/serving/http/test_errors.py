from __future__ import annotations

import pytest
from starlette.exceptions import HTTPException

from agentrt import errors
from agentrt.runtime.serving.http.errors import ApiError, to_api_error


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
