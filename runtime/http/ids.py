"""Ids of responses."""

from __future__ import annotations

import secrets


def completion_id() -> str:
    """A fresh id. It is what lets a client add to the response's tool cache, so nobody can guess it."""
    return f"chatcmpl-{secrets.token_hex(16)}"
