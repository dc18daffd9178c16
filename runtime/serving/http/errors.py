"""Errors with their HTTP status, in the form of the routes that a client uses.

That is ``{"error": text}`` on Ollama's routes, ``{"type": "error", "error": {"type", "message"}}`` on
Anthropic's, and OpenAI's on all others and where the path is not known:
``{"error": {"message", "type", "param", "code"}}``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
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
MESSAGES_ROUTES: Final = ("/v1/messages", "/v1/messages/count_tokens")
"""The paths of Anthropic's routes."""

_log: Final = logging.getLogger(__name__)
_MESSAGES_KINDS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
"""Anthropic's types of errors by status; all others are a wrong request below 500, and a failure above."""
_NO_FIELD: Final = re.compile(r"body|path|query|str|(?:list|dict|literal)\[.*\]")
"""Parts of an error's place that are no fields, but types that a field may have."""
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
        if path in MESSAGES_ROUTES:
            other = "invalid_request_error" if self.status_code < 500 else "api_error"
            kind = _MESSAGES_KINDS.get(self.status_code, other)
            return {"type": "error", "error": {"type": kind, "message": self.detail}}
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
    return to_api_error(OverloadedError(message))


_BAD, _OVERLOAD, _SERVER = "invalid_request_error", "rate_limit_error", "server_error"
# To OpenAI's clients: the prompt may depend on the answer in progress; more contexts will not fit.
_NO_RETRY: Final = {"x-should-retry": "false"}
_RETRY: Final = {"retry-after": "5"}  # not where that cannot help
_ERRORS: Final[Sequence[tuple[type[AgentRTError], int, str, str | None, Mapping[str, str]]]] = (
    (InvalidRequestError, 400, _BAD, "invalid_value", {}),
    (PromptTooLongError, 400, _BAD, "context_length_exceeded", {}),
    (ContextNotFoundError, 404, _BAD, "context_not_found", {}),
    (ContextBusyError, 409, _BAD, "context_busy", _NO_RETRY),
    (ContextQuotaError, 429, "insufficient_quota", "context_quota_exceeded", _NO_RETRY),
    (ContextStoreError, 503, _SERVER, "context_store_failed", {}),
    (OverloadedError, 429, _OVERLOAD, "rate_limit_exceeded", {"retry-after": "1"}),
    (RuntimeClosedError, 503, _SERVER, None, {}),
    (ModelBudgetError, 503, _SERVER, "model_unavailable", _RETRY),
    (ModelTooLargeError, 503, _SERVER, "model_too_large", {}),
    (ModelLoadError, 503, _SERVER, "model_load_failed", {}),
    (AgentRTError, 500, _SERVER, None, {}),
)
"""Status, type, code and headers of the first kind that an error is of."""


def to_api_error(error: Exception) -> ApiError:
    """Return the error to send for ``error``.

    Unexpected ones, and those of the server's files, are sent without their details, as any client gets them
    and not the owner alone. The log has those of the server's files.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestValidationError):
        return _validation_error(error)
    if isinstance(error, HTTPException):
        code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code)
        return ApiError(error.status_code, str(error.detail), code=code, headers=error.headers)
    if not isinstance(error, AgentRTError):
        return ApiError(500, "the server failed. Its log has the cause.", kind=_SERVER)
    message, param = str(error), None
    if isinstance(error, InvalidRequestError | PromptTooLongError):
        param = error.field
    elif isinstance(error, ContextNotFoundError | ContextBusyError):
        param = "context_id"
    elif isinstance(error, ModelBudgetError | ModelTooLargeError | ModelLoadError):
        param = "model"
    if isinstance(error, RuntimeClosedError):
        message = "the server is stopping. Try again when it has restarted."
    elif isinstance(error, ContextStoreError):
        _log.error("contexts: %s", error)
        message = "the server could not read or write its contexts; its log has the cause. Try again later, "
        message += "or send the whole conversation without a context."
    elif isinstance(error, ModelLoadError):
        _log.error("%s", error)
        message = f"the model {error.model!r} could not be loaded; the server's log has the cause. Try again "
        message += "later, or use another model."
    _, status, kind, code, headers = next(known for known in _ERRORS if isinstance(error, known[0]))
    return ApiError(status, message, code=code, param=param, kind=kind, headers=headers or None)


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


def _validation_error(error: RequestValidationError) -> ApiError:
    """Return a 400 for the first wrong field of a body; ``param`` is its path, such as ``tools[0].name``."""
    first = error.errors()[0]
    path = [part for part in first["loc"] if isinstance(part, int) or _NO_FIELD.fullmatch(part) is None]
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
