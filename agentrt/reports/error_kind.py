"""What events say of an error."""

from __future__ import annotations


def error_kind(error: BaseException) -> str:
    """Return an error's type, followed by its HTTP status if it has one.

    The error's text is left out: it may hold API keys and arguments.
    """
    status = getattr(error, "status_code", None)
    return f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
