"""Runs a model's pieces one after the other without an engine, for logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import openvino as ov
    from numpy.typing import NDArray

    from agentrt.runtime.model.directory import ModelDirectory


class Pieces:
    """Compiled pieces that make up one model on the CPU, with a cache for one sequence."""

    def __init__(self, pieces: Sequence[ov.Model], properties: Mapping[str, Any], tokens: int) -> None:
        """Compile ``pieces``, segments of all layers, with a KV cache for ``tokens`` tokens."""
        import openvino as ov

        from agentrt.runtime.heg.kernel import KernelKind
        from agentrt.runtime.model.kv_layout import KVLayout
        from agentrt.runtime.xpu.buffers import BatchBuffers
        from agentrt.runtime.xpu.compiled import CompiledKernels

        kernels = CompiledKernels({KernelKind.LAYERS: pieces}, "CPU", properties)
        self.layout = KVLayout.of(kernels.models)
        """How the KV cache is laid out."""
        self._table = list(range(-(-tokens // self.layout.block_tokens)))
        self.caches = {
            cache.name: ov.Tensor(cache.element_type, ov.Shape([len(self._table), *cache.block_shape]))
            for cache in self.layout.caches
        }
        """The KV cache by tensor: block ``n`` has the ``n``-th tokens of the sequence."""
        indexes = range(len(pieces))
        self._inferences = [kernels.bind(KernelKind.LAYERS, each, self.caches) for each in indexes]
        self._buffers = BatchBuffers()
        last = list(kernels.models)[-1]
        self.vocabulary_size = int(last.outputs[0].get_partial_shape()[-1].get_length())
        """Logits of a position."""

    def forward(self, tokens: list[int], past: int, *, rows: int) -> NDArray[np.float32]:
        """Logits ``[rows, vocabulary]`` of the last ``rows`` of ``tokens``, which ``past`` others precede."""
        from agentrt.runtime.heg.kernel import BatchInputs

        count = len(tokens)
        self._buffers.load(
            BatchInputs(
                token_ids=tokens,
                position_ids=list(range(past, past + count)),
                past_lens=[past],
                subsequence_begins=[0, count],
                block_tables=[self._table],
                max_context_len=past + count,
                sampled_rows=list(range(count - rows, count)),
            )
        )
        logits: NDArray[np.float32] | None = None
        for inference in self._inferences:
            inference.bind(self._buffers)
            inference.request.start_async(share_inputs=True)
            inference.request.wait()
            logits = inference.finish(self._buffers)
        assert logits is not None
        return logits.copy()

    def log_probabilities(self, tokens: list[int], past: int) -> tuple[list[float], list[int]]:
        """Return the log-probability of each of ``tokens`` but the first, and the likeliest token there."""
        import numpy as np

        logits = self.forward(tokens, past, rows=len(tokens))[:-1].astype(np.float64)
        chosen = logits[np.arange(len(tokens) - 1), tokens[1:]]
        found: list[float] = (chosen - np.logaddexp.reduce(logits, axis=1)).tolist()
        return found, logits.argmax(axis=1).tolist()


def open_whole(directory: ModelDirectory, properties: Mapping[str, Any], tokens: int) -> Pieces:
    """Return the whole model of a directory in one piece, with a KV cache for ``tokens`` tokens."""
    from agentrt.runtime.heg.partition import Partition
    from agentrt.runtime.model.openvino_core import load_on_own_thread
    from agentrt.runtime.model.read_graph import read_paged_graph

    pieces = Partition(read_paged_graph(directory)).layer_segments(())
    return load_on_own_thread(lambda: Pieces(pieces, properties, tokens))
