"""Compares the weights of an open model with their digest, in the background."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from agentrt.errors import ModelFormatError

from ..files.checksums import damaged_error, read_checksums
from .directory import ModelDirectory

_PIECE_BYTES: Final = 4 * 2**20
_REST: Final = 9
"""Seconds without work for each second of work, so that inference keeps the processor."""

_log: Final = logging.getLogger(__name__)


class WeightsCheck:
    """A thread that reads a model's weights once, on a tenth of a core, and reports a wrong digest.

    A gigabyte takes some ten seconds: reading it while the model is opened would delay the first answer.
    """

    def __init__(self, directory: ModelDirectory, on_damage: Callable[[ModelFormatError], None]) -> None:
        """Begin, if a digest of the weights of ``directory`` is stated. Stop it in the end.

        ``on_damage`` is called on the thread with what to do about it. A damaged conversion of a GGUF file is
        converted again when the file is opened next.
        """
        self._directory = directory
        self._weights = directory.graph.with_suffix(".bin")
        self._stated = read_checksums(directory.path).get(self._weights.name)
        self._on_damage = on_damage
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentrt-weights", daemon=True)
        if self._stated is not None:
            self._thread.start()

    def stop(self) -> None:
        """End without a result. May be called again, and on the thread itself."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            digest = self._digest()
        except OSError as error:  # it was open when the model was loaded, so it is not damaged
            _log.info("The weights in %s cannot be read again: %s", self._weights, error)
            return
        if digest in (None, self._stated):
            return
        conversion = self._directory.conversion
        if conversion is None:
            self._on_damage(damaged_error(self._weights))
            return
        # Imported here, as it loads packages that other models do not need.
        from .gguf.cache import reject_cached_model

        reject_cached_model(self._directory.path)
        self._on_damage(
            ModelFormatError(
                f"the conversion of {conversion.file} is damaged: {self._weights.name} differs from its "
                "digest. Open the file again, which converts it anew."
            )
        )

    def _digest(self) -> str | None:
        """Return the digest of the weights; None if the check is to stop."""
        digest = hashlib.sha256()
        with self._weights.open("rb", buffering=0) as stream:
            began = time.perf_counter()
            while piece := stream.read(_PIECE_BYTES):
                digest.update(piece)
                if self._stopping.wait(_REST * (time.perf_counter() - began)):
                    return None
                began = time.perf_counter()
        return digest.hexdigest()
