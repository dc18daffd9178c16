"""Buffers of a batch between its kernels: inputs and activations, in host memory that all XPUs share."""

from __future__ import annotations

import functools
import itertools
import weakref
from array import array
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from ..heg.kernel import BatchInputs, StateAccess
from ..heg.partition import SCORE_WINDOWS
from ..model.gather_sampled_rows import SAMPLED_ROWS
from ..model.paged import STATE_INPUTS

_I32_INPUTS: Final = ("past_lens", "subsequence_begins", "block_indices", "block_indices_begins")
_FIRST_LENGTH: Final = 64
_NO_BLOCKS: Final[list[int]] = []
"""The block table of an empty sequence."""
_KEPT_TENSORS: Final = 64
"""Tensors of one buffer that are kept, for lengths that may recur."""


class _GrowableTensor:
    """Rows of memory that OpenVINO reads or writes in place, as a tensor of the requested length.

    Binding a tensor to an inference costs more than writing to it, so there is one tensor per length: while
    the length stays the same, as it nearly always does between two decode steps, so does the tensor. Tensors
    of the latest lengths are kept.
    """

    def __init__(
        self,
        element_type: ov.Type,
        row: tuple[int, ...] = (),
        multiple: int = 1,
        first_length: int = _FIRST_LENGTH,
    ) -> None:
        """Rows of shape ``row``; memory for a multiple of ``multiple``, at first ``first_length``."""
        # NumPy has no bf16: it is stored as an integer of two bytes, whose value is not read here.
        dtype = np.dtype(np.uint16) if element_type == ov.Type.bf16 else element_type.to_dtype()
        self._element_type = element_type
        self._multiple = multiple
        self._memory: NDArray[Any] = np.zeros((_round_up(first_length, multiple), *row), dtype)
        self._items = self._memory.data
        self._tensors: dict[tuple[int, int], ov.Tensor] = {}
        self.written: ov.Tensor | None = None
        """The tensor of the values that were written last."""
        self._values: Sequence[int] = ()

    def tensor(self, length: int) -> ov.Tensor:
        if length > len(self._memory):
            grown = _round_up(max(length, 2 * len(self._memory)), self._multiple)
            self._memory = np.zeros((grown, *self._memory.shape[1:]), self._memory.dtype)
            self._items = self._memory.data
            self._tensors.clear()
        return self.rows(0, length)

    def rows(self, begin: int, end: int) -> ov.Tensor:
        """Return the rows from ``begin`` to ``end``, which lie within the memory."""
        tensor = self._tensors.get((begin, end))
        if tensor is None:
            memory = self._memory[begin:end]
            tensor = ov.Tensor(memory, ov.Shape(memory.shape), self._element_type)
            if len(self._tensors) == _KEPT_TENSORS:
                del self._tensors[next(iter(self._tensors))]  # the oldest
            self._tensors[begin, end] = tensor
        return tensor

    def write(self, values: Sequence[int]) -> bool:
        """Write ``values``; return whether :attr:`written` is another tensor than before."""
        if values == self._values:  # between two decode steps some inputs stay as they are
            return False
        length = len(values)
        replaced = self.written is None or length != len(self._values)
        if replaced:
            self.written = self.tensor(length)
        # Not by NumPy: behind an inference, which has emptied the caches, its code takes longer to get there.
        self._items[:length] = array(self._items.format, values)
        self._values = values
        return replaced


class BatchBuffers:
    """The memory of one batch in progress (``activation_buffer`` of Agent.xpu §6.2), reused by later ones.

    The residual stream has two buffers: each kernel reads one and writes the other, so that nothing is lost
    when a batch pauses and nothing is copied when it resumes, on whichever XPU.
    """

    def __init__(self, row_multiple: int = 1, *, scored: bool = False, least_sequences: int = 0) -> None:
        """Allocate small buffers; they grow with the batches that use them.

        Each has memory for a multiple of ``row_multiple`` rows: the longest static shape, so that the rows
        that pad a batch to a multiple of it are there. ``scored`` is whether some layers put out scores.
        Batches of fewer than ``least_sequences`` sequences get empty ones, except in a hybrid model.
        """
        self._row_multiple = row_multiple
        self._scored = scored
        self._least_sequences = least_sequences
        self.tokens = 0
        """Tokens of the loaded batch."""
        self.current = 0
        """Which of its two buffers the residual stream is in."""
        self.version = 0
        """Changes whenever a tensor is replaced."""
        self.inferences: dict[Any, Any] = {}
        """The inferences that XPUs have bound to these buffers; only XPUs use it."""
        self.abandoned = False
        """Whether a hung kernel may still write here; then the buffers are not reused."""
        self._inputs: dict[str, _GrowableTensor] = {
            "input_ids": _GrowableTensor(ov.Type.i64, multiple=row_multiple),
            "position_ids": _GrowableTensor(ov.Type.i64, multiple=row_multiple),
            SAMPLED_ROWS: _GrowableTensor(ov.Type.i64),
        } | {name: _GrowableTensor(ov.Type.i32) for name in (*_I32_INPUTS, SCORE_WINDOWS, *STATE_INPUTS)}
        longest = np.zeros((), np.int32)
        self._max_context_len = ov.Tensor(longest, shared_memory=True)
        self._longest = longest.data
        self._activations: dict[str, _GrowableTensor] = {}
        self.rows = 0
        """Rows of logits of the loaded batch."""
        self._tables: list[tuple[list[int], int]] = []
        self._logits: _GrowableTensor | None = None

    def load(self, inputs: BatchInputs) -> None:
        """Start a batch: write its inputs."""
        self.current = 0
        self.rows = len(inputs.sampled_rows)
        if self.tokens != len(inputs.token_ids):
            self.tokens = len(inputs.token_ids)
            self.version += 1
        past, begins, tables = inputs.past_lens, inputs.subsequence_begins, inputs.block_tables
        empty = 0 if inputs.states else self._least_sequences - len(past)
        if empty > 0:
            past, begins = [*past, *[0] * empty], [*begins, *begins[-1:] * empty]
            tables = [*tables, *[_NO_BLOCKS] * empty]
        for name, values in (
            ("input_ids", inputs.token_ids),
            ("position_ids", inputs.position_ids),
            ("past_lens", past),
            ("subsequence_begins", begins),
            (SAMPLED_ROWS, inputs.sampled_rows),
        ):
            self._write(name, values)
        if self._scored:
            self._write(SCORE_WINDOWS, [end - begin for begin, end in itertools.pairwise(begins)])
        self._longest[()] = inputs.max_context_len
        self._write_tables(tables)
        if inputs.states:
            self._write_states(inputs.states)

    def input(self, name: str) -> ov.Tensor:
        """Return the tensor of one of the loaded batch's inputs."""
        tensor = self._max_context_len if name == "max_context_len" else self._inputs[name].written
        assert tensor is not None, "no batch was loaded"
        return tensor

    def input_rows(self, name: str, begin: int, end: int) -> ov.Tensor:
        """Return rows of one of the loaded batch's inputs by token; see :meth:`activation_rows`."""
        return self._inputs[name].rows(begin, end)

    def activation(self, name: str, port: ov.Output) -> ov.Tensor:
        """Return the tensor ``[tokens, …]`` of an activation, with the type and row shape of ``port``."""
        return self._activation(name, port).tensor(self.tokens)

    def activation_rows(self, name: str, port: ov.Output, begin: int, end: int) -> ov.Tensor:
        """Return rows of :meth:`activation`, and of what pads it to a multiple of the longest static shape.

        Rows behind the batch's tokens are zeros, or left over from a longer batch.
        """
        growing = self._activation(name, port)
        growing.tensor(self.tokens)  # allocates
        return growing.rows(begin, end)

    def logits(self, port: ov.Output) -> ov.Tensor:
        """Return the tensor ``[logits rows, …]`` of the logits, with the type and row shape of ``port``."""
        if self._logits is None:
            self._logits = _GrowableTensor(port.get_element_type(), _row_of(port), first_length=1)
        return self._logits.tensor(self.rows)

    def _activation(self, name: str, port: ov.Output) -> _GrowableTensor:
        growing = self._activations.get(name)
        if growing is None:
            growing = _GrowableTensor(port.get_element_type(), _row_of(port), self._row_multiple)
            self._activations[name] = growing
        return growing

    def stream_name(self, *, next: bool) -> str:
        """Return the activation that is the residual stream: the current, or what the next kernel writes."""
        return f"hidden{self.current ^ next}"

    def swap_stream(self) -> None:
        """Make the residual stream that the kernel has written the current one."""
        self.current ^= 1

    def _write(self, name: str, values: Sequence[int]) -> None:
        if self._inputs[name].write(values):
            self.version += 1

    def _write_tables(self, tables: list[list[int]]) -> None:
        """Write the block tables, if the batch has changed or a sequence has a new block."""
        if len(self._tables) == len(tables):
            for (written, length), table in zip(self._tables, tables, strict=True):
                if table is not written or length != len(table):
                    break
            else:
                return
        # A table only grows while it is in use, and is a new list afterwards.
        self._tables = [(table, len(table)) for table in tables]
        indices: list[int] = []
        begins = [0]
        for table in tables:
            indices += table
            begins.append(len(indices))
        self._write("block_indices", indices)
        self._write("block_indices_begins", begins)

    def _write_states(self, states: Sequence[StateAccess]) -> None:
        """Write the state rows of the batch's sequences, and where they take checkpoints."""
        rows: list[int] = []
        begins = [0]
        for access in states:
            rows += access.rows
            begins.append(len(rows))
        self._write("la.block_indices", rows)
        self._write("la.block_indices_begins", begins)
        self._write("la.past_lens", [access.past for access in states])
        self._write("la.cache_interval", [access.interval for access in states])


class BufferPool:
    """Buffers that no batch uses now. Not thread-safe: it belongs to the engine thread."""

    def __init__(self, row_multiple: int = 1, *, scored: bool = False, least_sequences: int = 0) -> None:
        """Create an empty pool; for the parameters see :class:`BatchBuffers`."""
        self._new = functools.partial(
            BatchBuffers, row_multiple, scored=scored, least_sequences=least_sequences
        )
        self._free: list[BatchBuffers] = []
        self._all = weakref.WeakSet[BatchBuffers]()
        self._closed = False

    def take(self, inputs: BatchInputs) -> BatchBuffers:
        """Load a batch into free buffers, preferably of one with as many tokens: those are bound already."""
        tokens = len(inputs.token_ids)
        for buffers in self._free:
            if buffers.tokens == tokens:
                self._free.remove(buffers)
                break
        else:
            buffers = self._free.pop() if self._free else self._new()
            self._all.add(buffers)
        buffers.load(inputs)
        return buffers

    def give_back(self, buffers: BatchBuffers) -> None:
        """Return ``buffers`` to the pool, unless they are abandoned or the pool is closed."""
        if not buffers.abandoned and not self._closed:
            self._free.append(buffers)

    def forget(self, key: object) -> None:
        """Drop the inference ``key`` of all buffers, free or in use. It must not be running."""
        for buffers in self._all:
            buffers.inferences.pop(key, None)

    def clear(self) -> None:
        """Drop all free buffers and the inferences bound to them."""
        self._free.clear()

    def close(self) -> None:
        """Drop all free buffers, and keep none that are given back later."""
        self._closed = True
        self.clear()


def _row_of(port: ov.Output) -> tuple[int, ...]:
    """Return the shape of a row of ``port``, which only the number of rows is missing of."""
    return tuple(extent.get_length() for extent in list(port.get_partial_shape())[1:])


def _round_up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple
