"""Hashes by which the prefix cache finds complete KV blocks, salted so that only one app shares them.

A block's keys and values depend on its tokens and on all tokens before them, and so does its hash: each hash
is keyed by the one before it. The first key of the chain is the app's salt, a secret of this process, or of
its stored contexts. Another app's prompt cannot have an equal hash, and so cannot learn from its time to
first token what this app has said.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence

_HASH_BYTES = 16


class PrefixSalts:
    """One secret salt per app, derived from a secret of this object. Thread-safe."""

    def __init__(self, secret: bytes | None = None) -> None:
        """``secret`` is that of stored contexts (:attr:`ContextStore.secret`); by default a new one is drawn.

        Salts of different secrets differ.
        """
        self._secret = secrets.token_bytes(_HASH_BYTES) if secret is None else secret

    def salt_for(self, app: str) -> bytes:
        """Return the salt of ``app``: always the same, and different from every other app's."""
        return hashlib.blake2b(app.encode(), key=self._secret, digest_size=_HASH_BYTES).digest()


class BlockHashes:
    """The hash chain of one sequence, computed as far as it was needed."""

    __slots__ = ("_block_tokens", "_hashes", "_salt")

    def __init__(self, salt: bytes, block_tokens: int) -> None:
        """``salt`` is the app's (:meth:`PrefixSalts.salt_for`)."""
        self._salt = salt
        self._block_tokens = block_tokens
        self._hashes: list[bytes] = []

    def compute(self, tokens: Sequence[int], blocks: int) -> list[bytes]:
        """Return the hashes of the first ``blocks`` blocks of ``tokens``, all of them complete.

        Hashes of earlier calls are kept, so ``tokens`` must begin with the tokens of every earlier call.

        Raises:
            AssertionError: a block is not complete, and its hash would stand for any continuation. Always a
                bug.
        """
        hashes = self._hashes
        size = self._block_tokens
        if blocks * size > len(tokens):
            raise AssertionError(f"{blocks} blocks of {size} hashed, but there are {len(tokens)} tokens")
        for index in range(len(hashes), blocks):
            content = array("q", tokens[index * size : (index + 1) * size]).tobytes()
            previous = hashes[-1] if hashes else self._salt
            hashes.append(hashlib.blake2b(content, key=previous, digest_size=_HASH_BYTES).digest())
        return hashes[:blocks]
