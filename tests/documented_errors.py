"""The documented form of the errors that Anthropic's routes send."""

from __future__ import annotations

from typing import Any

_NO_THREADS = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""By which Anthropic's client recognises the refusal of a message thread."""
_MESSAGES_TYPES = {
    "api_error", "authentication_error", "invalid_request_error", "not_found_error", "overloaded_error",
    "permission_error", "rate_limit_error", "request_too_large",
}  # fmt: skip


def is_error_of_messages(body: Any) -> bool:
    """Return whether a body is an error in Anthropic's form."""
    error = body.get("error") if isinstance(body, dict) and body.get("type") == "error" else None
    return (
        isinstance(error, dict)
        and error.keys() - {"details"} == {"type", "message"}
        and error.get("details", _NO_THREADS) == _NO_THREADS
        and isinstance(error["message"], str)
        and error["type"] in _MESSAGES_TYPES
    )
