"""Keys by which complete KV blocks are found again: prefixes are shared within one app, never between two.

A block's keys and values depend on its tokens and on all tokens before them, and so does its key. The first
link of the chain is the app's salt, which nobody outside this process knows: another app's prompt cannot have
an equal key, and so cannot learn from the time to its first token what this one has said.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence

_KEY_BYTES = 16


class PrefixSalts:
    """One secret per app, made when the app is first seen. Thread-safe."""

    def __init__(self) -> None:
        """No salt outlives this object."""
        self._secret = secrets.token_bytes(_KEY_BYTES)

    def of(self, app: str) -> bytes:
        """The salt of ``app``: always the same, and unlike every other app's."""
        return hashlib.blake2b(app.encode(), key=self._secret, digest_size=_KEY_BYTES).digest()


class BlockHashes:
    """The chain of keys of one sequence, as far as it was asked for."""

    __slots__ = ("_block_tokens", "_keys", "_salt")

    def __init__(self, salt: bytes, block_tokens: int) -> None:
        """``salt`` is the app's (:meth:`PrefixSalts.of`)."""
        self._salt = salt
        self._block_tokens = block_tokens
        self._keys: list[bytes] = []

    def of(self, tokens: Sequence[int], blocks: int) -> list[bytes]:
        """The keys of the first ``blocks`` blocks of ``tokens``, all of them complete.

        ``tokens`` must begin with what it began with in every earlier call.
        """
        keys = self._keys
        size = self._block_tokens
        for index in range(len(keys), blocks):
            content = array("q", tokens[index * size : (index + 1) * size]).tobytes()
            previous = keys[-1] if keys else self._salt
            keys.append(hashlib.blake2b(content, key=previous, digest_size=_KEY_BYTES).digest())
        return keys[:blocks]
