"""Compares the logits of a cut model with those of the whole model (Agent.xpu §5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..common.bench_model import BenchModel, TokenPrompts
from ..common.pieces import Pieces

if TYPE_CHECKING:
    import numpy as np
    import openvino as ov
    from numpy.typing import NDArray

    from agentrt.runtime.heg.kernel import KernelKind
    from agentrt.runtime.heg.partition import Partition


@dataclass(frozen=True, slots=True)
class ForwardPasses:
    """The forward passes compared: prompt chunks of one sequence, then decode steps."""

    chunks: int
    chunk_tokens: int
    decode_steps: int


COMPARED: Final = ForwardPasses(chunks=2, chunk_tokens=256, decode_steps=8)


def largest_difference(
    model: BenchModel, passes: ForwardPasses, progress: Callable[[str], None]
) -> dict[str, float]:
    """Return the figure: the largest difference of any logit at any position in f32, over both ways to cut.

    There is none for a model that cannot be cut, as the runtime says with a warning.
    """
    from agentrt.runtime.heg.kernel import KernelKind
    from agentrt.runtime.heg.partition import Partition
    from agentrt.runtime.model.directory import open_model_directory
    from agentrt.runtime.model.paged import read_paged_graph

    partition = Partition(read_paged_graph(open_model_directory(model.path)))
    tokens = TokenPrompts(model, seed=0).take(passes.chunks * passes.chunk_tokens + passes.decode_steps)
    progress(f"{model.title}: logits of the whole model")
    whole = _logits({KernelKind.LAYERS: partition.layer_segments(())}, tokens, passes)
    differences = []
    for cut, pieces in _cuts(partition):
        progress(f"{model.title}: logits of the model cut {cut}")
        differences.append(float(abs(_logits(pieces, tokens, passes) - whole).max()))
    return {"logits_max_abs_diff_cut": max(differences)} if differences else {}


def _cuts(partition: Partition) -> Iterator[tuple[str, dict[KernelKind, list[ov.Model]]]]:
    """The finest pieces of both kinds, as far as the model can be cut."""
    from agentrt.runtime.heg.kernel import KernelKind

    if partition.seams:
        yield "between layers", {KernelKind.LAYERS: partition.layer_segments(sorted(partition.seams))}
    if partition.splits:
        # The last layer stays whole: it gathers the rows that are sampled.
        last = partition.layers - 1
        yield (
            "around attentions",
            {
                KernelKind.TOKENS: partition.token_groups(last),
                KernelKind.ATTENTION: [partition.attention(layer) for layer in range(last)],
                KernelKind.LAYERS: partition.layer_segments([last])[1:],
            },
        )


def _logits(
    pieces: Mapping[KernelKind, list[ov.Model]], tokens: Sequence[int], passes: ForwardPasses
) -> NDArray[np.float32]:
    """Return the logits ``[tokens, vocabulary]`` of all forward passes over ``tokens``."""
    import numpy as np

    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    model = Pieces(pieces, exact, len(tokens))
    lengths = [passes.chunk_tokens] * passes.chunks + [1] * passes.decode_steps
    logits: list[NDArray[np.float32]] = []
    past = 0
    for length in lengths:
        logits.append(model.forward(list(tokens[past : past + length]), past, rows=length))
        past += length
    return np.concatenate(logits)
