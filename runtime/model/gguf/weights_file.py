"""Writes the weights file of an OpenVINO graph tensor by tensor, before and independently of the graph.

A graph is built with parameters in place of its weights, and :func:`write_graph` turns these parameters into
constants of the weights file. So at no time is more than a piece of one tensor in memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import openvino as ov
import openvino.opset15 as opset
from gguf.constants import GGMLQuantizationType as Type
from gguf.quants import dequantize
from numpy.typing import NDArray

from agentrt.errors import ModelFormatError

from ...files.graph_files import constants_end
from ..native.library import PANEL_ROWS, NativeLibrary
from .file_format import Tensor
from .quantisation import (
    FOUR_BIT_GROUP,
    FOUR_BITS,
    eight_bit_group,
    pack_nibbles,
    to_eight_bits,
    unpack_four_bits,
)

_PIECE_WEIGHTS: Final = 2**20
"""Weights that are converted at once, except where a single row has more. They take 4 bytes each meanwhile,
and as much again for each step of their arithmetic."""
_ALIGNMENT: Final = 64
_PLAIN: Final = {Type.F32: ov.Type.f32, Type.F16: ov.Type.f16, Type.BF16: ov.Type.bf16}
_PREFIX: Final = "weights."


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a matrix: those of a tensor ``[rows, columns]``."""

    tensor: Tensor
    order: NDArray[np.intp] | None = None
    """Row ``order[i]`` of the tensor becomes row ``i``; None leaves them as they are."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix ``[rows, columns]`` as nodes of the graph that is being built."""

    values: ov.Output
    """float32, without offsets."""
    offsets: ov.Output | None = None
    """``[rows, groups]`` float32: what each group of columns adds to all of its weights."""


@dataclass(frozen=True, slots=True)
class Panels:
    """A matrix ``[rows, columns]`` in the types of the file, for operations of the native library."""

    library: NativeLibrary
    values: ov.Output
    """``[bytes]``"""
    type: Type
    rows: int
    columns: int

    def gather(self, ids: ov.Output) -> ov.Output:
        """Return the rows of these ids, as float32."""
        return self.library.gather(self.values, ids, self.type, self.columns)


def feed_forward_panels(state: ov.Output, matrices: Sequence[Panels], activation: str) -> ov.Output:
    """Return what a feed-forward of gates, values and down makes of ``state``."""
    values, types, rows = zip(*((each.values, each.type, each.rows) for each in matrices), strict=True)
    return matrices[0].library.feed_forward(state, values, types, rows, activation)


def project_panels(state: ov.Output, matrices: Sequence[Panels]) -> list[ov.Output]:
    """Return ``state`` times each transposed matrix."""
    values, types, rows = zip(*((each.values, each.type, each.rows) for each in matrices), strict=True)
    return matrices[0].library.matmul(state, values, types, rows)


class WeightsFile:
    """The weights file of a graph that is being built."""

    def __init__(
        self,
        stream: BinaryIO,
        *,
        library: NativeLibrary | None = None,
        keep_four_bits: bool = False,
        advance: Callable[[int], None] = lambda done: None,
    ) -> None:
        """Write to ``stream``.

        With ``library`` weights stay as they are where it multiplies them. Else with ``keep_four_bits`` codes
        of 4 bits stay as they are; all others are rounded to 8 bits.
        ``advance`` is called with how many bytes of tensors have been converted.
        """
        self._stream = stream
        self._library = library
        self._keep_four_bits = keep_four_bits
        self._advance = advance
        self._done = 0
        self.parameters: list[ov.op.Parameter] = []
        """They stand for constants of the file in the graph; named after their place in the file."""
        self.keeps_all = library is not None
        """Whether all matrices that have been written are as they are."""

    def vector(self, tensor: Tensor) -> NDArray[np.float32]:
        """Return a tensor of few elements, such as the weights of a norm, as float32."""
        values = np.asarray(dequantize(_rows(tensor), tensor.type), np.float32).reshape(-1)
        self._count(tensor.size)
        return values

    def keeps(self, tensor: Tensor) -> bool:
        """Return whether the weights of ``tensor`` stay as they are, by :meth:`panels`."""
        return self._library is not None and self._library.multiplies(tensor.type, tensor.shape[-1])

    def panels(self, part: Rows) -> Panels:
        """Write a matrix as it is in the file, and return it."""
        tensor, library = part.tensor, self._library
        assert library is not None
        rows, columns = tensor.shape
        values = self._part((library.panel_bytes(tensor.type, rows, columns),), ov.Type.u8)
        for piece in self._pieces(part):
            values.append(library.pack(tensor.type, piece, columns))
        return Panels(library, values.values, tensor.type, rows, columns)

    def matrix(self, *parts: Rows) -> Matrix:
        """Write a matrix that consists of the rows of ``parts``, and return it as nodes.

        The parts have the same number of columns and the same :meth:`layout`.
        """
        self.keeps_all = False
        layout = self.layout(parts[0].tensor)
        if layout == ov.Type.i8:
            return self._eight_bits(parts)
        if isinstance(layout, Type):
            return self._four_bits(parts, layout)
        values = self._part(_shape(parts), layout)
        for part in parts:
            for rows in self._pieces(part):
                values.append(rows)
        return Matrix(
            values.values if layout == ov.Type.f32 else opset.convert(values.values, ov.Type.f32).output(0)
        )

    def layout(self, tensor: Tensor) -> ov.Type | Type:
        """Return how the weights of ``tensor`` are stored: a type of OpenVINO, or that of codes of 4 bits."""
        if self._keep_four_bits and tensor.type in FOUR_BITS:
            return tensor.type
        return _PLAIN.get(tensor.type, ov.Type.i8)

    def _eight_bits(self, parts: Sequence[Rows]) -> Matrix:
        rows, columns = _shape(parts)
        group = eight_bit_group(columns)
        codes = self._part((rows, columns // group, group), ov.Type.i8)
        scales = self._scales(rows, columns // group, 1)
        for part in parts:
            for piece in self._pieces(part):
                found = to_eight_bits(np.asarray(dequantize(piece, part.tensor.type), np.float32))
                codes.append(found.codes)
                scales.append(found.scales)
        return Matrix(_weights(codes, scales, rows, columns))

    def _four_bits(self, parts: Sequence[Rows], type: Type) -> Matrix:
        rows, columns = _shape(parts)
        groups = columns // FOUR_BIT_GROUP
        codes = self._part((rows, groups, FOUR_BIT_GROUP), ov.Type.i4)
        scales = self._scales(rows, groups, 1)
        offsets = self._scales(rows, groups) if FOUR_BITS[type].has_offsets else None
        for part in parts:
            for piece in self._pieces(part):
                found = unpack_four_bits(type, piece)
                codes.append(pack_nibbles(found.codes))
                scales.append(found.scales)
                if offsets is not None and found.offsets is not None:
                    offsets.append(found.offsets)
        return Matrix(_weights(codes, scales, rows, columns), None if offsets is None else offsets.values)

    def _scales(self, *shape: int) -> _Part:
        # Of scales in float16 the CPU plugin would keep a second copy in float32 for as long as it runs.
        return self._part(shape, ov.Type.f32)

    def _pieces(self, part: Rows) -> Iterator[NDArray[np.uint8]]:
        """Yield the rows of ``part``, some at a time, as bytes of its tensor's type."""
        tensor, order = part.tensor, part.order
        rows = math.prod(tensor.shape[:-1])
        step = max(1, _PIECE_WEIGHTS // tensor.shape[-1] // PANEL_ROWS) * PANEL_ROWS
        for begin in range(0, rows, step):
            data = _rows(tensor)  # mapped anew: pages of pieces that are done do not stay in memory
            yield data[begin : begin + step] if order is None else data[order[begin : begin + step]]
            self._count(min(step, rows - begin) * tensor.row_bytes)

    def _count(self, size: int) -> None:
        self._done += size
        self._advance(self._done)

    def _part(self, shape: tuple[int, ...], type: ov.Type) -> _Part:
        """Extend the file by a constant, whose content is appended to what is returned."""
        begin = -(-self._stream.seek(0, 2) // _ALIGNMENT) * _ALIGNMENT
        size = math.prod(shape) * type.bitwidth // 8
        self._stream.truncate(begin + size)
        parameter = opset.parameter(list(shape), type, name=f"{_PREFIX}{begin}.{size}")
        self.parameters.append(parameter)
        return _Part(self._stream, begin, parameter.output(0))


@dataclass(slots=True)
class _Part:
    """A constant in the file."""

    stream: BinaryIO
    at: int
    """Where the next piece of its content goes."""
    values: ov.Output
    """It in the graph."""

    def append(self, data: NDArray[Any]) -> None:
        self.stream.seek(self.at)
        self.stream.write(np.ascontiguousarray(data).data)
        self.at += data.nbytes


def _shape(parts: Sequence[Rows]) -> tuple[int, int]:
    """Return the rows of all ``parts`` together, and their columns."""
    return sum(part.tensor.shape[0] for part in parts), parts[0].tensor.shape[1]


def _weights(codes: _Part, scales: _Part, rows: int, columns: int) -> ov.Output:
    """Codes times scales, as ``[rows, columns]`` float32."""
    scaled = opset.multiply(opset.convert(codes.values, ov.Type.f32), scales.values)
    return opset.reshape(scaled, opset.constant([rows, columns]), False).output(0)


def write_graph(model: ov.Model, graph: Path, weights: BinaryIO) -> None:
    """Write ``model`` to ``graph``; its weights are parameters of a :class:`WeightsFile` on ``weights``.

    Constants of the model itself follow the weights in the file.

    Raises:
        ModelFormatError: OpenVINO did not write all of the constants.
    """
    constants = graph.with_suffix(".constants")
    with disk_errors(graph.parent):
        ov.serialize(model, str(graph), str(constants))  # as in runtime/model/paged.py
        needed, size = constants_end(graph), constants.stat().st_size
        if size < needed:
            raise ModelFormatError(f"OpenVINO wrote {size} of {needed} bytes. Open the file again.")
    begin = -(-weights.seek(0, 2) // _ALIGNMENT) * _ALIGNMENT
    weights.truncate(begin)
    weights.seek(begin)
    weights.write(constants.read_bytes())
    constants.unlink()
    tree = ElementTree.parse(graph)
    for layer in tree.iter("layer"):
        data = layer.find("data")
        if layer.get("type") == "Const" and data is not None:
            data.set("offset", str(int(data.get("offset", "0")) + begin))
        elif layer.get("name", "").startswith(_PREFIX) and data is not None:
            layer.set("type", "Const")
            for name, value in zip(("offset", "size"), layer.get("name", "").split(".")[1:], strict=True):
                data.set(name, value)
    tree.write(graph, encoding="utf-8", xml_declaration=True)


def _rows(tensor: Tensor) -> NDArray[np.uint8]:
    """Map the data of ``tensor`` as ``[rows, bytes of a row]``."""
    shape = (math.prod(tensor.shape[:-1]), tensor.row_bytes)
    return np.memmap(tensor.file, np.uint8, "r", tensor.offset, shape)


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
