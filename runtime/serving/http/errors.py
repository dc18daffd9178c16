"""Errors with their HTTP status, in the form of the routes that a client uses.

That is ``{"error": text}`` on Ollama's routes, and OpenAI's on all others and where the path is not known:
``{"error": {"message", "type", "param", "code"}}``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from agentrt.errors import (
    AgentRTError,
    ContextBusyError,
    ContextNotFoundError,
    ContextQuotaError,
    ContextStoreError,
    InvalidRequestError,
    ModelBudgetError,
    ModelLoadError,
    ModelTooLargeError,
    OverloadedError,
    PromptTooLongError,
    RuntimeClosedError,
)

OLLAMA_ROUTES: Final = "/api/"
"""What the paths of Ollama's routes begin with, at a server and at an engine behind a gateway."""

_log: Final = logging.getLogger(__name__)
_BUSY_MODELS_RETRY_S = "5"
_TYPE: Final = re.compile(r"str|(?:list|dict|literal)\[.*\]")
_WHOLE_BODY: Final = {
    "missing": "the body is empty. Send one in JSON.",
    "list_type": "the body is no JSON array. Send one: [{…}].",
    "model_attributes_type": "the body is no JSON object. Send one: {…}.",
}
"""What is wrong with a whole body, by pydantic's types of errors."""
_MAX_CHARACTERS = 1000
"""Longer messages, which quote the request, are cut in the middle: what to do next stands at their end."""


class ApiError(HTTPException):
    """An error that is sent to the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str = "invalid_request_error",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``kind`` is OpenAI's ``type``; ``param`` is the name of the wrong field."""
        super().__init__(status, _shortened(message), headers)
        self.code = code
        self.param = None if param is None else _shortened(param)
        self.kind = kind

    def body(self, path: str = "") -> dict[str, Any]:
        """Return the body of the response, in the form of the routes at ``path``."""
        if path.startswith(OLLAMA_ROUTES):
            return {"error": self.detail}
        error = {"message": self.detail, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}

    def response(self, path: str) -> JSONResponse:
        """Return the response to a request for ``path``: status, headers and body."""
        return JSONResponse(self.body(path), self.status_code, self.headers)


def _shortened(text: str) -> str:
    if len(text) <= _MAX_CHARACTERS:
        return text
    half = _MAX_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


def rate_limit_error(message: str) -> ApiError:
    """Return a 429 that asks the client to try again after a second."""
    return ApiError(
        429,
        message,
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"retry-after": "1"},
    )


def to_api_error(error: Exception) -> ApiError:
    """Return the error to send for ``error``.

    Unexpected ones, and those of the server's files, are sent without their details, as any client gets them
    and not the owner alone. The log has those of the server's files.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestValidationError):
        return _validation_error(error)
    if isinstance(error, InvalidRequestError):
        return ApiError(400, str(error), param=error.field, code="invalid_value")
    if isinstance(error, PromptTooLongError):
        return ApiError(400, str(error), param=error.field, code="context_length_exceeded")
    if isinstance(error, ContextNotFoundError):
        return ApiError(404, str(error), param="context_id", code="context_not_found")
    if isinstance(error, ContextBusyError):
        # OpenAI's clients do not try again: the prompt may depend on the answer that is in progress.
        return ApiError(
            409, str(error), param="context_id", code="context_busy", headers={"x-should-retry": "false"}
        )
    if isinstance(error, ContextQuotaError):
        # Without retry-after, and OpenAI's clients do not try again: that cannot help.
        return ApiError(
            429,
            str(error),
            kind="insufficient_quota",
            code="context_quota_exceeded",
            headers={"x-should-retry": "false"},
        )
    if isinstance(error, ContextStoreError):
        _log.error("contexts: %s", error)
        return ApiError(
            503,
            "the server could not read or write its contexts; its log has the cause. Try again later, or "
            "send the whole conversation without a context.",
            kind="server_error",
            code="context_store_failed",
        )
    if isinstance(error, OverloadedError):
        return rate_limit_error(str(error))
    if isinstance(error, RuntimeClosedError):
        return ApiError(503, "the server is stopping. Try again when it has restarted.", kind="server_error")
    if isinstance(error, ModelBudgetError):
        headers = {"retry-after": _BUSY_MODELS_RETRY_S}
        return ApiError(
            503, str(error), param="model", kind="server_error", code="model_unavailable", headers=headers
        )
    if isinstance(error, ModelTooLargeError):  # without retry-after: trying again cannot help
        return ApiError(503, str(error), param="model", kind="server_error", code="model_too_large")
    if isinstance(error, ModelLoadError):
        _log.error("%s", error)
        return ApiError(
            503,
            f"the model {error.model!r} could not be loaded; the server's log has the cause. Try again "
            "later, or use another model.",
            param="model",
            kind="server_error",
            code="model_load_failed",
        )
    if isinstance(error, AgentRTError):
        return ApiError(500, str(error), kind="server_error")
    if isinstance(error, HTTPException):
        code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code)
        return ApiError(error.status_code, str(error.detail), code=code, headers=error.headers)
    return ApiError(500, "the server failed. Its log has the cause.", kind="server_error")


def install_error_handlers(app: FastAPI) -> None:
    """Make ``app`` answer every error in the form of its route."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        return to_api_error(error).response(request.scope["path"])

    async def answer_no_route(request: Request, error: HTTPException) -> JSONResponse:
        known = error if isinstance(error, ApiError) else _no_route(request, error)
        return await answer(request, known)

    for kind in (HTTPException, RequestValidationError, AgentRTError, Exception):
        app.add_exception_handler(kind, answer)
    for status in (404, 405):
        app.add_exception_handler(status, answer_no_route)  # type: ignore[arg-type]


def _no_route(request: Request, error: HTTPException) -> ApiError:
    """Return the error for a path or a method that the server does not have."""
    path, known = request.scope["path"], to_api_error(error)
    if known.status_code == 405:
        allowed = sorted((known.headers or {}).get("Allow", "another").split(", "))
        message = f"{request.method} is no method of {path}. Use {' or '.join(allowed)}."
    else:
        message = f"there is no route {path}. GET /openapi.json lists those there are."
        if not path.startswith(("/v1/", OLLAMA_ROUTES)):
            message += " Those of OpenAI begin with /v1: let the client's base URL end in /v1."
    return ApiError(known.status_code, message, code=known.code, headers=known.headers)


def _is_type(part: int | str) -> bool:
    """Whether a part of an error's place is no field, but one of the types that a field may have."""
    return isinstance(part, str) and _TYPE.fullmatch(part) is not None


def _validation_error(error: RequestValidationError) -> ApiError:
    """Return a 400 for the first wrong field of a body; ``param`` is its path, such as ``tools[0].name``."""
    first = error.errors()[0]
    path = [part for part in first["loc"] if part not in ("body", "path", "query") and not _is_type(part)]
    param = ""
    for part in path:
        param += f"[{part}]" if isinstance(part, int) else f".{part}" if param else str(part)
    missing = first["type"] == "missing"
    code = "missing_required_parameter" if missing else "invalid_type"
    if path:
        message = f"{param}: {'is missing. Send it.' if missing else first['msg']}"
    else:
        message = _WHOLE_BODY.get(first["type"], str(first["msg"]))
    # The message may quote the request, which may hold lone surrogates.
    return ApiError(400, message.encode("utf-8", "replace").decode(), param=param or None, code=code)
