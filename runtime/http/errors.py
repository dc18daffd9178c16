"""Errors in OpenAI's shape: ``{"error": {"message", "type", "param", "code"}}`` and the matching status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from agentrt.errors import (
    AgentRTError,
    InvalidRequestError,
    OverloadedError,
    PromptTooLongError,
    RuntimeClosedError,
)

INVALID = "invalid_request_error"


class ApiError(HTTPException):
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str = INVALID,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``kind`` is OpenAI's ``type``; ``param`` the field that is wrong."""
        super().__init__(status, message, headers)
        self.code = code
        self.param = param
        self.kind = kind

    def body(self) -> dict[str, Any]:
        """What is sent."""
        error = {"message": self.detail, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}

    def response(self) -> JSONResponse:
        """The whole response."""
        return JSONResponse(self.body(), self.status_code, self.headers)


def too_many(message: str) -> ApiError:
    """The answer to one request more than can be taken now."""
    return ApiError(
        429,
        message,
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"retry-after": "1"},
    )


def api_error(error: Exception) -> ApiError:
    """How ``error`` is told to a client. What is no fault of the request tells nothing of the inside."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, InvalidRequestError):
        return ApiError(400, str(error), param=error.field, code="invalid_value")
    if isinstance(error, PromptTooLongError):
        return ApiError(400, str(error), param="messages", code="context_length_exceeded")
    if isinstance(error, OverloadedError):
        return too_many(str(error))
    if isinstance(error, RuntimeClosedError):
        return ApiError(503, "the server is stopping. Ask again when it is back.", kind="server_error")
    if isinstance(error, AgentRTError):
        return ApiError(500, str(error), kind="server_error")
    if isinstance(error, HTTPException):
        code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code)
        return ApiError(error.status_code, str(error.detail), code=code, headers=error.headers)
    return ApiError(500, "the server failed; its log says why.", kind="server_error")


def validation_error(error: RequestValidationError) -> ApiError:
    """The first thing that is wrong with a body, by its field's name."""
    first = error.errors()[0]
    where = [part for part in first["loc"] if part not in ("body", "path", "query")]
    param = ""
    for part in where:
        param += f"[{part}]" if isinstance(part, int) else f".{part}" if param else str(part)
    code = "missing_required_parameter" if first["type"] == "missing" else "invalid_type"
    message = f"{param}: {first['msg']}" if param else str(first["msg"])
    # Such messages may quote what was sent, and that need not be text.
    return ApiError(400, message.encode("utf-8", "replace").decode(), param=param or None, code=code)


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` in this shape."""

    async def answer(_: Request, error: Exception) -> JSONResponse:
        known = validation_error(error) if isinstance(error, RequestValidationError) else api_error(error)
        return known.response()

    for kind in (HTTPException, RequestValidationError, AgentRTError, Exception):
        app.add_exception_handler(kind, answer)
