"""Ids of responses."""

from __future__ import annotations

import secrets


def new_completion_id() -> str:
    """Return a fresh, unguessable id. With it a client can add to the response's tool cache."""
    return f"chatcmpl-{secrets.token_hex(16)}"
