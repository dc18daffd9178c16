"""Errors of a full disk, which OpenVINO reports as something else or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROBE: Final = ".probe"
_PROBE_BYTES: Final = 2**20


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raise the errors of a block that writes to ``folder`` as that of the disk, if the disk is the cause.

    OpenVINO stops writing on a full disk with an error that does not name it, or without any: let the block
    check what was written. Whether the disk is full shows by writing to it once more.

    Raises:
        OSError: the block raised, and nothing can be written to ``folder``.
    """
    try:
        yield
    except OSError:
        raise
    except Exception:
        _probe(folder / _PROBE)
        raise


def _probe(file: Path) -> None:
    """Write some bytes to ``file``, and delete it."""
    try:
        with file.open("wb") as stream:
            stream.write(bytes(_PROBE_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
