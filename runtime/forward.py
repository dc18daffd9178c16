"""One forward pass: a step of the scheduler in, logits of its sampled rows out."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from .context import KVArena
from .model import PagedModel
from .scheduler import Slice


class _Input:
    """One input of the model that changes every step: a buffer that OpenVINO reads in place.

    Binding a tensor costs more than writing to it, so a tensor stays bound while its length stays the same;
    between two decode steps that is nearly always.
    """

    def __init__(self, request: ov.InferRequest, index: int, dtype: type[np.generic]) -> None:
        self._request = request
        self._index = index
        self._buffer: NDArray[Any] = np.zeros(64, dtype)
        self._tensors: dict[int, ov.Tensor] = {}
        self._bound = -1

    def write(self, values: list[int]) -> None:
        length = len(values)
        if length > len(self._buffer):
            self._buffer = np.zeros(2 * length, self._buffer.dtype)
            self._tensors.clear()
            self._bound = -1
        self._buffer[:length] = values
        if length != self._bound:
            tensor = self._tensors.get(length)
            if tensor is None:
                tensor = ov.Tensor(self._buffer[:length], shared_memory=True)
                self._tensors[length] = tensor
            self._request.set_input_tensor(self._index, tensor)
            self._bound = length


class ForwardPass:
    """Runs steps on one infer request over one arena. Not thread-safe."""

    def __init__(self, model: PagedModel, arena: KVArena) -> None:
        """Create the infer request and bind the arena and the scalar input for good."""
        self._request = model.compiled.create_infer_request()
        arena.bind(self._request)
        inputs = model.inputs
        self._input_ids = _Input(self._request, inputs["input_ids"], np.int64)
        self._position_ids = _Input(self._request, inputs["position_ids"], np.int64)
        self._past_lens = _Input(self._request, inputs["past_lens"], np.int32)
        self._subsequence_begins = _Input(self._request, inputs["subsequence_begins"], np.int32)
        self._block_indices = _Input(self._request, inputs["block_indices"], np.int32)
        self._block_indices_begins = _Input(self._request, inputs["block_indices_begins"], np.int32)
        self._sampled = _Input(self._request, inputs["sampled_token_indices"], np.int64)
        self._max_context_len = np.zeros((), np.int32)
        self._request.set_input_tensor(
            inputs["max_context_len"], ov.Tensor(self._max_context_len, shared_memory=True)
        )
        self._tables: list[tuple[list[int], int]] = []

    def run(self, step: list[Slice]) -> NDArray[np.float32]:
        """Compute ``step``; keys and values go to the arena. Blocks the thread, without holding the GIL.

        Returns:
            ``[rows, vocabulary]`` logits, one row for each slice that samples, in the step's order. The
            memory is OpenVINO's and valid until the next call.
        """
        tokens: list[int] = []
        positions: list[int] = []
        past: list[int] = []
        begins = [0]
        sampled: list[int] = []
        longest = 0
        for sequence, count, samples in step:
            start = sequence.computed
            end = start + count
            if count == 1:
                tokens.append(sequence.tokens[start])
                positions.append(start)
            else:
                tokens += sequence.tokens[start:end]
                positions += range(start, end)
            past.append(start)
            begins.append(len(tokens))
            if samples:
                sampled.append(len(tokens) - 1)
            if end > longest:
                longest = end
        self._input_ids.write(tokens)
        self._position_ids.write(positions)
        self._past_lens.write(past)
        self._subsequence_begins.write(begins)
        self._sampled.write(sampled)
        self._max_context_len[...] = longest
        self._write_tables(step)
        self._request.infer(share_outputs=True)
        logits: NDArray[np.float32] = self._request.get_output_tensor(0).data
        return logits.reshape(logits.shape[0], logits.shape[-1])

    def _write_tables(self, step: list[Slice]) -> None:
        """Write the block tables, which change only when the batch does or a sequence enters a new block."""
        tables = self._tables
        if len(tables) == len(step) and all(
            table is sequence.blocks and length == len(table)
            for (table, length), (sequence, _, _) in zip(tables, step, strict=True)
        ):
            return
        # A table only grows while its sequence runs, and is a new list after a preemption.
        self._tables = [(sequence.blocks, len(sequence.blocks)) for sequence, _, _ in step]
        indices: list[int] = []
        begins = [0]
        for sequence, _, _ in step:
            indices += sequence.blocks
            begins.append(len(indices))
        self._block_indices.write(indices)
        self._block_indices_begins.write(begins)
