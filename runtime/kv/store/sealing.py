"""Seals of the parts of a file: a checksum, or authenticated encryption. Reading finds a broken one.

Every file has seals of its own, from a number drawn at its creation, and every seal is bound to its place, so
that a part that was copied to another file or place does not fit there.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import Final, Protocol

from agentrt.extras import needs_extra

KEY_BYTES: Final = 32
_CHECKSUM_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16


class SealBrokenError(Exception):
    """The content is not what was sealed, or not at the place it was sealed for."""


class Seal(Protocol):
    """What seals the parts of one file."""

    overhead: int
    """Bytes that sealing adds."""

    def seal(self, content: bytes, place: bytes) -> bytes:
        """Return ``content`` sealed for ``place``."""

    def unseal(self, sealed: bytes | memoryview, place: bytes) -> bytes:
        """Return the content.

        Raises:
            SealBrokenError: it was changed, or sealed for another place or file.
        """


def checksum(*parts: bytes | memoryview) -> bytes:
    """Return the CRC-32 of ``parts`` together: four bytes."""
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value.to_bytes(_CHECKSUM_BYTES, "little")


class ChecksumSeal:
    """Seals by checksums: they find damage, not intent."""

    overhead = _CHECKSUM_BYTES

    def __init__(self, file_number: bytes) -> None:
        """``file_number`` is the number of the file."""
        self._file_number = file_number

    def seal(self, content: bytes, place: bytes) -> bytes:
        """See :meth:`Seal.seal`."""
        return content + checksum(self._file_number, place, content)

    def unseal(self, sealed: bytes | memoryview, place: bytes) -> bytes:
        """See :meth:`Seal.unseal`."""
        content = sealed[:-_CHECKSUM_BYTES]
        if sealed[-_CHECKSUM_BYTES:] != checksum(self._file_number, place, content):
            raise SealBrokenError
        return bytes(content)


class CipherSeal:
    """Seals by AES-256-GCM, with a key of the file that is derived from the key of the store."""

    overhead = _NONCE_BYTES + _TAG_BYTES

    def __init__(self, key: bytes, file_number: bytes) -> None:
        """``key`` is the key of the store, :data:`KEY_BYTES` long; ``file_number`` is the number of the file.

        Raises:
            MissingExtraError: cryptography is not installed.
        """
        with needs_extra("encryption"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        derived = hashlib.blake2b(file_number, key=key, digest_size=KEY_BYTES, person=b"agentrt file key")
        self._cipher = AESGCM(derived.digest())
        self._invalid = InvalidTag

    def seal(self, content: bytes, place: bytes) -> bytes:
        """See :meth:`Seal.seal`."""
        # Random, not counted: after a torn end was cut off, a count would begin again at a used number.
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, place)

    def unseal(self, sealed: bytes | memoryview, place: bytes) -> bytes:
        """See :meth:`Seal.unseal`."""
        if len(sealed) < self.overhead:
            raise SealBrokenError
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place)
        except self._invalid as error:
            raise SealBrokenError from error


def seal_of(key: bytes | None, file_number: bytes) -> Seal:
    """Return what seals the file of that number: checksums without a key."""
    return ChecksumSeal(file_number) if key is None else CipherSeal(key, file_number)
