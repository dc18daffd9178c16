"""Compares the weights of an open model with their digest, in the background."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agentrt.errors import ModelFormatError

from ..files.checksums import damaged_error, read_checksums
from .directory import ModelDirectory

_PIECE_BYTES: Final = 4 * 2**20
_REST: Final = 9
"""Seconds without work for each second of work, so that inference keeps the processor."""

_log: Final = logging.getLogger(__name__)


def check_weights(directory: ModelDirectory, on_damage: Callable[[ModelFormatError], None]) -> WeightsCheck:
    """Start comparing the weights of ``directory`` with their digest. Stop the returned check.

    ``on_damage`` is called on another thread with what to do about it. A damaged conversion of a GGUF file is
    converted again when the file is opened next.
    """

    def damaged() -> None:
        if directory.conversion is None:
            on_damage(damaged_error(weights))
            return
        # Imported here, as it loads packages that other models do not need.
        from .gguf.cache import reject_cached_model

        reject_cached_model(directory.path)
        on_damage(
            ModelFormatError(
                f"the conversion of {directory.conversion.file} is damaged: {weights.name} differs from its "
                "digest. Open the file again, which converts it anew."
            )
        )

    weights = directory.graph.with_suffix(".bin")
    check = WeightsCheck(weights, damaged)
    check.start()
    return check


class WeightsCheck:
    """A thread that reads a weights file once, on a tenth of a core, and reports a wrong digest.

    A gigabyte takes some ten seconds: reading it while the model is opened would delay the first answer.
    """

    def __init__(self, weights: Path, on_damage: Callable[[], None]) -> None:
        """Check ``weights``, if their digest is stated. ``on_damage`` is called on the thread."""
        self._weights = weights
        self._stated = read_checksums(weights.parent).get(weights.name)
        self._on_damage = on_damage
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentrt-weights", daemon=True)

    def start(self) -> None:
        """Begin; without a stated digest there is nothing to do."""
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
        if digest not in (None, self._stated):
            self._on_damage()

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
