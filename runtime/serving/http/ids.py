"""Ids of responses."""

from __future__ import annotations

import secrets


def new_completion_id() -> str:
    """Return a fresh, unguessable id. With it a client can add to the response's tool cache."""
    return f"chatcmpl-{secrets.token_hex(16)}"


def new_text_completion_id() -> str:
    """Return a fresh id of a completion of the older interface, which has no tools."""
    return f"cmpl-{secrets.token_hex(16)}"
