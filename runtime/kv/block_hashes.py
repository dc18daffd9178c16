"""Hashes by which the prefix cache finds complete KV blocks, salted so that only one app shares them.

A block's keys and values depend on its tokens and on all tokens before them, and so does its hash: each hash
is keyed by the one before it. The first key of the chain is the app's salt, a secret of this process, or of
its stored contexts. Another app's prompt cannot have an equal hash, and so cannot learn from its time to
first token what this app has said.

The beginning of a prompt that its app declares public is hashed by a salt that all apps have in common: those
that declare the same share its blocks. The app's own salt enters the chain behind it.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Mapping, Sequence

_HASH_BYTES = 16


class PrefixSalts:
    """One secret salt per app, derived from a secret of this object. Thread-safe."""

    def __init__(self, secret: bytes | None = None, renewals: Mapping[str, bytes] | None = None) -> None:
        """``secret`` is that of stored contexts (:attr:`ContextStore.secret`); by default a new one is drawn.

        Salts of different secrets differ. ``renewals`` are what :meth:`renew` has returned for some apps.
        """
        self._secret = secrets.token_bytes(_HASH_BYTES) if secret is None else secret
        self._renewals = dict(renewals or {})

    def salt_for(self, app: str) -> bytes:
        """Return the salt of ``app``: the same until it is renewed, and different from every other app's."""
        renewal = self._renewals.get(app, b"")
        return hashlib.blake2b(app.encode(), key=self._secret, salt=renewal, digest_size=_HASH_BYTES).digest()

    def is_current(self, app: str, salt: bytes) -> bool:
        """Whether ``salt`` is that of ``app``, and has not been renewed."""
        return salt == self.salt_for(app)

    def renew(self, app: str) -> bytes:
        """Give ``app`` another salt, so that nothing is found that it has hashed before.

        Return what makes it the same one in another object (``renewals``).
        """
        renewal = self._renewals[app] = secrets.token_bytes(_HASH_BYTES)
        return renewal

    @property
    def shared(self) -> bytes:
        """The salt of public prefixes, which is no app's."""
        return hashlib.blake2b(key=self._secret, digest_size=_HASH_BYTES, person=b"public").digest()


class BlockHashes:
    """The hash chain of one sequence, computed as far as it was needed."""

    __slots__ = ("_block_tokens", "_hashes", "_public_blocks", "_public_salt", "salt")

    def __init__(
        self, salt: bytes, block_tokens: int, public_salt: bytes = b"", public_tokens: int = 0
    ) -> None:
        """``salt`` is the app's (:meth:`PrefixSalts.salt_for`).

        Blocks within the first ``public_tokens`` are hashed by ``public_salt`` (:attr:`PrefixSalts.shared`).
        """
        self.salt = salt
        """The salt of the app."""
        self._public_salt = public_salt
        self._public_blocks = public_tokens // block_tokens
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
            hashes.append(_keyed(content, self._key(index)))
        return hashes[:blocks]

    def _key(self, index: int) -> bytes:
        """Return the key of the hash of block ``index``, behind all blocks before it."""
        public = index < self._public_blocks
        if not index:
            return self._public_salt if public else self.salt
        previous = self._hashes[index - 1]
        return _keyed(previous, self.salt) if index == self._public_blocks else previous


def _keyed(content: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(content, key=key, digest_size=_HASH_BYTES).digest()
