"""Names and values that only the replicas which know an app's tokens can make or read."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any, Final

from pydantic_core import from_json

from ..http.strict_json import compact_json

FORMAT: Final = 1
"""The version of what is stored. Gateways of another version find nothing."""
_DIGEST_BYTES: Final = 32


class AppSeal:
    """Names under which one app's values lie in a shared store, and their authentication (HMAC-SHA256).

    A value belongs to one name, and a name to one app, response and call: no app, and no other client of the
    store, can submit or claim an output of another one.
    """

    def __init__(self, app: str, secret: bytes) -> None:
        """``secret`` is what the replicas know of the app's tokens, see :meth:`Tokens.secret_of`."""
        self._key = hmac.digest(secret, app.encode(), hashlib.sha256)

    def name(self, kind: str, *parts: str) -> str:
        """Return the name of the value of this kind that ``parts`` identify."""
        return f"agentrt:{FORMAT}:{kind}:{self._digest(json.dumps([kind, *parts]).encode()).hex()}"

    def seal(self, name: str, value: Any) -> bytes:
        """Return ``value``, which JSON can express, as bytes to store under ``name``."""
        text = compact_json(value).encode()
        return self._digest(name.encode() + text) + text

    def unseal(self, name: str, stored: bytes | None) -> Any:
        """Return the value stored under ``name``; None if this app has stored none there."""
        if stored is None or len(stored) <= _DIGEST_BYTES:
            return None
        digest, text = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        return from_json(text) if hmac.compare_digest(digest, self._digest(name.encode() + text)) else None

    def _digest(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, hashlib.sha256)
