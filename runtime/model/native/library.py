"""Compiles the products once for a machine, and loads it: operations for OpenVINO, and their weights.

An OpenVINO wheel brings the headers and libraries that it is compiled against. Where there is no compiler, or
the system is not Linux, there is no library, and models are computed by OpenVINO's own operations.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import openvino as ov
import platformdirs
from numpy.typing import NDArray
from openvino.utils.node_factory import NodeFactory

from agentrt.errors import ModelFormatError

from ...files.file_lock import file_lock
from ..openvino_core import openvino_core

if TYPE_CHECKING:
    from gguf.constants import GGMLQuantizationType as Type

logger = logging.getLogger("agentrt")

TYPES: Final = frozenset({"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"})
"""The names of the types of weights that are multiplied as they are."""
PANEL_ROWS: Final = 16
"""Rows of a panel."""
MATMUL: Final = "QuantisedMatMul"
FEED_FORWARD: Final = "QuantisedFeedForward"
GATHER: Final = "QuantisedGather"
"""Names of the operations."""
COMPILER: Final = "CXX"
"""The variable that names the compiler; else it is the first of :data:`_COMPILERS` that is found."""
_COMPILERS: Final = ("g++", "clang++", "c++")
_SOURCE: Final = Path(__file__).with_name("matmul.cpp")
_INCLUDED: Final = tuple(map(_SOURCE.with_name, ("kernels.h", "panels.h")))
_FLAGS: Final = ("-std=c++17", "-fPIC", "-shared", "-w")
THIS_PROCESSOR: Final = ("-O3", "-march=native", "-DNATIVE")
"""Flags for a library with this processor's instructions only; without ``NATIVE`` it has all."""
_PROCESSOR: Final = Path("/proc/cpuinfo")
_TIMEOUT_S: Final = 300


class NativeLibrary:
    """The library, loaded into this process."""

    def __init__(self, path: Path) -> None:
        """Load the library at ``path``.

        Raises:
            OSError: it cannot be loaded.
        """
        self.path: Final = path
        self._factory = NodeFactory()
        self._factory.add_extension(str(path))
        self._functions = ctypes.CDLL(str(path))
        size, address = ctypes.c_size_t, ctypes.c_void_p
        self._functions.agentrt_panel_bytes.restype = size
        self._functions.agentrt_panel_bytes.argtypes = [ctypes.c_int64, size, size]
        self._functions.agentrt_pack.argtypes = [ctypes.c_int64, address, size, size, address]
        self._functions.agentrt_multiply.argtypes = [
            *(ctypes.c_char_p, address, size, size, ctypes.c_bool),
            *(ctypes.c_int64, address, size, address),
        ]
        self._functions.agentrt_instructions.restype = ctypes.c_char_p

    panels_version: Final = 1
    """Increase it when :meth:`pack` writes something else."""

    @property
    def instructions(self) -> str:
        """The instruction set that products are computed with on this processor."""
        name: bytes = self._functions.agentrt_instructions()
        return name.decode()

    def multiplies(self, type: Type, columns: int) -> bool:
        """Return whether rows of ``columns`` weights of ``type`` are multiplied as they are."""
        # Imported here: it takes longer than a converted model needs for all of this module.
        from gguf.constants import GGML_QUANT_SIZES

        return type.name in TYPES and columns % max(GGML_QUANT_SIZES[type][0], 32) == 0

    def panel_bytes(self, type: Type, rows: int, columns: int) -> int:
        """Return how many bytes a matrix has as panels."""
        found: int = self._functions.agentrt_panel_bytes(int(type), rows, columns)
        return found

    def pack(self, type: Type, blocks: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
        """Return ``[rows, bytes of a row]`` as panels; beyond a multiple of 16 rows there are zeros."""
        blocks = np.ascontiguousarray(blocks)
        panels = np.empty(self.panel_bytes(type, len(blocks), columns), np.uint8)
        self._functions.agentrt_pack(int(type), blocks.ctypes.data, len(blocks), columns, panels.ctypes.data)
        return panels

    def multiply(
        self,
        values: NDArray[np.float32],
        type: Type,
        panels: NDArray[np.uint8],
        rows: int,
        instructions: str | None = None,
        *,
        prompt: bool = False,
    ) -> NDArray[np.float32] | None:
        """Return ``values`` times the transposed matrix; None where the processor lacks ``instructions``.

        ``prompt`` computes it as for tokens of a prompt.
        """
        values = np.ascontiguousarray(values, np.float32)
        product = np.empty((len(values), rows), np.float32)
        failed = self._functions.agentrt_multiply(
            None if instructions is None else instructions.encode(),
            *(values.ctypes.data, *values.shape, prompt),
            *(int(type), panels.ctypes.data, rows, product.ctypes.data),
        )
        return None if failed else product

    def matmul(
        self, state: ov.Output, panels: Sequence[ov.Output], types: Sequence[Type], rows: Sequence[int]
    ) -> list[ov.Output]:
        """Return the node's products of ``state`` with each matrix, transposed."""
        attributes: dict[str, Any] = {"types": list(map(int, types)), "rows": list(rows)}
        products: list[ov.Output] = self._factory.create(MATMUL, [state, *panels], attributes).outputs()
        return products

    def feed_forward(
        self,
        state: ov.Output,
        panels: Sequence[ov.Output],
        types: Sequence[Type],
        rows: Sequence[int],
        activation: str,
    ) -> ov.Output:
        """Return the node's product of ``down`` and of the activated gates times the values of ``state``.

        ``panels`` are those of gates, values and down; ``activation`` is ``silu`` or ``gelu``.
        """
        attributes = {"types": list(map(int, types)), "rows": list(rows), "activation": activation}
        return self._factory.create(FEED_FORWARD, [state, *panels], attributes).output(0)

    def gather(self, panels: ov.Output, ids: ov.Output, type: Type, columns: int) -> ov.Output:
        """Return the rows of a matrix of these ids, int32, as float32."""
        attributes = {"type": int(type), "columns": columns}
        return self._factory.create(GATHER, [panels, ids], attributes).output(0)


def has_native_products(models: Iterable[ov.Model]) -> bool:
    """Return whether any of ``models`` has products of the library."""
    return any(node.get_type_name() == MATMUL for model in models for node in model.get_ops())


def is_to_be_compiled() -> bool:
    """Return whether :func:`native_library` is going to compile the library, which takes some seconds."""
    compiler = _compiler()
    return compiler is not None and not _path(compiler).is_file()


@functools.cache
def native_library() -> NativeLibrary | None:
    """Return the library, which is compiled first if this machine has none; None where that is impossible."""
    compiler = _compiler()
    if compiler is None:
        return None
    try:
        return NativeLibrary(_compiled(compiler))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        logger.warning(
            "products with weights as they are in GGUF files could not be compiled by %s (%s). They are "
            "rounded to 8 bits instead. Name another compiler: %s=…",
            compiler,
            _reason(error),
            COMPILER,
        )
        return None


def describe_library() -> str | None:
    """Return how products are or will be computed, in a few words; None where nothing compiles them."""
    compiler = _compiler()
    if compiler is None:
        return None
    if not _path(compiler).is_file():
        return f"to be compiled by {compiler} when a GGUF file is first opened"
    library = native_library()
    return None if library is None else f"compiled by {compiler}, with {library.instructions}"


@functools.cache
def load_operations() -> None:
    """Let this process's OpenVINO read graphs that have the library's operations.

    Raises:
        ModelFormatError: there is no library any more.
    """
    library = native_library()
    if library is None:
        raise ModelFormatError(
            "it was converted for products that are compiled on this machine, and there is no compiler any "
            f"more. Install g++, or name one: {COMPILER}=…"
        )
    openvino_core().add_extension(str(library.path))


def _compiler() -> str | None:
    if sys.platform != "linux":
        return None
    named = os.environ.get(COMPILER)
    return shutil.which(named) if named else next(filter(None, map(shutil.which, _COMPILERS)), None)


def _path(compiler: str) -> Path:
    """Return where the library is, or will be, in the user's cache folder: named after all it depends on."""
    told = " ".join([compiler, *_FLAGS, *THIS_PROCESSOR, ov.__version__, _instruction_sets()])
    sources = b"".join(file.read_bytes() for file in (_SOURCE, *_INCLUDED))
    digest = hashlib.sha256(sources + told.encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("agentrt") / "native" / f"matmul-{digest}.so"


def _instruction_sets() -> str:
    """Return the line of the first processor that names what it has; homes are shared between machines."""
    lines = _PROCESSOR.read_text().splitlines() if _PROCESSOR.is_file() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _compiled(compiler: str) -> Path:
    library = _path(compiler)
    if library.is_file():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(library.with_suffix(".lock")):
        if not library.is_file():
            compile_library(compiler, library, THIS_PROCESSOR)
    return library


def compile_library(compiler: str, library: Path, flags: Sequence[str]) -> None:
    """Compile the library to a file.

    Raises:
        OSError, subprocess.SubprocessError: the compiler fails.
    """
    openvino = Path(ov.__file__).parent
    libraries = openvino / "libs"
    linked = [next(libraries.glob(f"{name}.so.*")) for name in ("libopenvino", "libtbb")]
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        built = Path(folder) / library.name
        command = [
            *(compiler, *_FLAGS, *flags, str(_SOURCE), "-o", str(built), f"-I{openvino / 'include'}"),
            *(*map(str, linked), f"-Wl,-rpath,{libraries}"),
        ]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
        built.replace(library)


def _reason(error: Exception) -> str:
    """Return the last line of what the compiler or loader said."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return ((said or str(error)).strip().splitlines() or ["no reason given"])[-1]
