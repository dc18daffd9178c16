"""Compiled graphs of token-level op groups on disk, one file for each group and shape (sd.npu §3.2)."""

from __future__ import annotations

import io
import os
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from agentrt.errors import GraphLoadError

from ..heg.kernel import GraphLoad
from ..model.openvino_core import openvino_message
from .compiled import PieceCompiler

_CHECKSUM_BYTES: Final = 4


class GraphStore:
    """A folder of graphs of one model for one device with one set of properties.

    Each file is what OpenVINO exports, and a checksum: importing a damaged file could crash the process.
    Files are written atomically. They are mapped, not read: only what OpenVINO lays out anew needs memory.
    """

    def __init__(self, folder: Path, compiler: PieceCompiler) -> None:
        """``folder`` is created at the first write; ``compiler`` has compiled the graphs."""
        self.folder: Final = folder
        self._compiler = compiler

    def __contains__(self, load: GraphLoad) -> bool:
        """Whether there is a file for ``load``."""
        return self._file(load).exists()

    def write(self, load: GraphLoad, compiled: ov.CompiledModel) -> None:
        """Export ``compiled`` to the file for ``load``.

        Raises:
            OSError: the file cannot be written.
            RuntimeError: the device cannot export this graph.
        """
        stream = io.BytesIO()
        compiled.export_model(stream)
        exported = stream.getvalue()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(exported)
                file.write(_checksum(exported))
            os.replace(temporary, self._file(load))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def read(self, load: GraphLoad) -> ov.CompiledModel:
        """Import the graph that ``load`` names. A damaged file is deleted, and written at the next opening.

        Raises:
            GraphLoadError: it cannot be read or imported.
        """
        file = self._file(load)
        try:
            # OpenVINO takes writable memory only. It does not write: no page is copied.
            content: NDArray[np.uint8] = np.memmap(file, np.uint8, "c")
        except OSError as error:
            raise GraphLoadError(load.group, f"{file} cannot be read ({error.strerror}).") from error
        except ValueError:  # it is empty
            content = np.zeros(0, np.uint8)
        exported, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
        if not exported.size or _checksum(exported.data) != checksum.tobytes():
            raise self._unusable(load, f"{file} is damaged.")
        try:
            return self._compiler.load(exported)
        except RuntimeError as error:
            raise self._unusable(load, openvino_message(error)) from error

    def _unusable(self, load: GraphLoad, reason: str) -> GraphLoadError:
        """Delete the file for ``load`` and return the error that says why."""
        with suppress(OSError):  # Windows keeps a file that is mapped
            self._file(load).unlink()
        return GraphLoadError(load.group, reason)

    def _file(self, load: GraphLoad) -> Path:
        return self.folder / f"{load.group}-{load.graph.value}.blob"


def _checksum(exported: bytes | memoryview) -> bytes:
    return zlib.crc32(exported).to_bytes(_CHECKSUM_BYTES, "little")
