"""The contexts of a closed runtime on disk: its prefix cache, for when the model is opened again."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from .block_hashes import PrefixSalts

Rows = NDArray[np.uint8]
"""The memory of one cache tensor, ``[blocks, bytes of a block]``."""


@dataclass(frozen=True, slots=True)
class SavedContexts:
    """KV blocks with their hashes, in a temporary file without a name, which no other program can open.

    The system deletes it when it is closed, or this process ends.
    """

    salts: PrefixSalts
    """The salts of the hashes: without them no app could find its blocks."""
    owner: Hashable
    """Model, settings and layout of the blocks; they are of no use to others."""
    block_hashes: tuple[bytes, ...]
    """The hash of each block, the least recently used first."""
    _file: IO[bytes]

    @classmethod
    def save(
        cls, salts: PrefixSalts, owner: Hashable, blocks: Mapping[bytes, int], caches: Sequence[Rows]
    ) -> Self:
        """Write ``blocks``, numbers by hash, of ``caches``.

        Raises:
            OSError: the file cannot be written; nothing of it is left.
        """
        file = tempfile.TemporaryFile()  # noqa: SIM115 - open until the contexts are read
        try:
            rows = list(blocks.values())
            for cache in caches:
                file.write(cache[rows].tobytes())
            file.flush()
        except BaseException:
            file.close()
            raise
        return cls(salts, owner, tuple(blocks), file)

    def read_into(self, caches: Sequence[Rows], blocks: Sequence[int]) -> None:
        """Read the blocks, in the order of :attr:`block_hashes`, into the rows ``blocks`` of ``caches``.

        Raises:
            OSError: the file cannot be read. Some blocks may have been written.
        """
        self._file.seek(0)
        for cache in caches:
            shape = (len(blocks), cache.shape[1])
            content = self._file.read(shape[0] * shape[1])
            if len(content) < shape[0] * shape[1]:
                raise OSError(None, "the file of the contexts is too short")
            cache[list(blocks)] = np.frombuffer(content, np.uint8).reshape(shape)

    def close(self) -> None:
        """Delete the file. May be called again."""
        self._file.close()
