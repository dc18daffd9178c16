"""Seals of what is stored: a checksum, or authenticated encryption. Reading finds a broken one.

Every context and every file of chunks has a seal of its own, from a number drawn at its creation, and what is
sealed is bound to its place, so that a part that was copied elsewhere does not fit there.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from agentrt.extras import needs_extra

KEY_BYTES: Final = 32
_CHECKSUM_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16


class SealBrokenError(Exception):
    """The content is not what was sealed, or not at the place it was sealed for."""


def checksum(*parts: bytes | memoryview) -> bytes:
    """Return the CRC-32 of ``parts`` together: four bytes."""
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value.to_bytes(_CHECKSUM_BYTES, "little")


class ChecksumSeal:
    """Seals by checksums: they find damage, not intent."""

    overhead = _CHECKSUM_BYTES
    """Bytes that sealing adds."""

    def __init__(self, number: bytes) -> None:
        """``number`` is that of the context or file."""
        self._number = number

    def seal(self, content: bytes, place: bytes) -> bytes:
        """Return ``content`` sealed for ``place``."""
        return content + checksum(self._number, place, content)

    def unseal(self, sealed: bytes | memoryview, place: bytes) -> bytes:
        """Return the content.

        Raises:
            SealBrokenError: it was changed, or sealed for another place or file.
        """
        if not isinstance(sealed, bytes | memoryview):  # of a damaged row
            raise SealBrokenError
        content = sealed[:-_CHECKSUM_BYTES]
        if sealed[-_CHECKSUM_BYTES:] != checksum(self._number, place, content):
            raise SealBrokenError
        return bytes(content)


class CipherSeal:
    """Seals by AES-256-GCM, with a key that is derived from the key of the store."""

    overhead = _NONCE_BYTES + _TAG_BYTES

    def __init__(self, key: bytes, number: bytes) -> None:
        """``key`` is that of the store, :data:`KEY_BYTES` long; ``number`` is that of the context or file.

        Raises:
            MissingExtraError: cryptography is not installed.
        """
        with needs_extra("encryption"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        derived = hashlib.blake2b(number, key=key, digest_size=KEY_BYTES, person=b"agentrt file key")
        self._cipher = AESGCM(derived.digest())
        self._invalid = InvalidTag

    def seal(self, content: bytes, place: bytes) -> bytes:
        """See :meth:`ChecksumSeal.seal`."""
        # Random, not counted: a count would begin again at a used number after a change that was undone.
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, place)

    def unseal(self, sealed: bytes | memoryview, place: bytes) -> bytes:
        """See :meth:`ChecksumSeal.unseal`."""
        if not isinstance(sealed, bytes | memoryview) or len(sealed) < self.overhead:
            raise SealBrokenError
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place)
        except self._invalid as error:
            raise SealBrokenError from error


Sealer: TypeAlias = Callable[[bytes], ChecksumSeal | CipherSeal]
"""Returns the seal of the context or file of a number."""


def sealer(key: bytes | None) -> Sealer:
    """Return what seals with the key of a store: checksums without one."""
    return ChecksumSeal if key is None else partial(CipherSeal, key)
