"""Compares the logits of a cut model with those of the whole model (Agent.xpu §5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final

from ..common.bench_model import BenchModel
from ..common.pieces import Pieces
from ..common.report import Table
from ..common.texts import TokenPrompts

if TYPE_CHECKING:
    import numpy as np
    import openvino as ov
    from numpy.typing import NDArray

    from agentrt.runtime.heg.kernel import KernelKind
    from agentrt.runtime.heg.partition import Partition

EXACT: Final = "f32"
_PRECISIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    EXACT: {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"},
    "bf16, u8 KV": {"INFERENCE_PRECISION_HINT": "bf16", "KV_CACHE_PRECISION": "u8"},
}


@dataclass(frozen=True, slots=True)
class ForwardPasses:
    """The forward passes compared: prompt chunks of one sequence, then decode steps."""

    chunks: int
    chunk_tokens: int
    decode_steps: int

    @property
    def tokens(self) -> int:
        """Tokens of all forward passes; the logits of each are compared."""
        return self.chunks * self.chunk_tokens + self.decode_steps


COMPARED: Final = ForwardPasses(chunks=2, chunk_tokens=256, decode_steps=8)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a cut model with the whole one."""

    model: str
    precision: str
    cut: str
    positions: int
    max_abs_diff: float
    """Of any logit at any position."""
    largest_logit: float
    equal_argmax: float
    """Share of positions where both prefer the same token."""


def compare_cuts(
    model: BenchModel, passes: ForwardPasses, progress: Callable[[str], None]
) -> Iterator[Agreement]:
    """Cut ``model`` between all layers, then around all attentions, at each precision."""
    from agentrt.runtime.heg.partition import Partition
    from agentrt.runtime.model.directory import open_model_directory
    from agentrt.runtime.model.paged import read_paged_graph

    partition = Partition(read_paged_graph(open_model_directory(model.path)))
    tokens = TokenPrompts(model, seed=0).take(passes.tokens)
    for precision, properties in _PRECISIONS.items():
        progress(f"{model.title}: logits of the whole model, {precision}")
        whole = _logits(_whole(partition), properties, tokens, passes)
        for cut, pieces in _cuts(partition):
            progress(f"{model.title}: logits of the model cut {cut}, {precision}")
            found = _logits(pieces, properties, tokens, passes)
            yield Agreement(
                model.title,
                precision,
                cut,
                len(whole),
                float(abs(found - whole).max()),
                float(abs(whole).max()),
                float((found.argmax(axis=1) == whole.argmax(axis=1)).mean()),
            )


def agreement_table(found: Sequence[Agreement]) -> Table:
    """One row for each cut and precision."""
    return Table(
        title="logits of a model that is cut, beside those of the whole",
        columns=(
            *("model", "precision", "cut", "positions", "largest difference", "largest logit"),
            "equal argmax",
        ),
        rows=tuple(astuple(each) for each in found),
    )


def largest_difference(found: Sequence[Agreement]) -> dict[str, float]:
    """Return the figure; none for a model that cannot be cut, as the runtime says with a warning."""
    exact = [each.max_abs_diff for each in found if each.precision == EXACT]
    return {"logits_max_abs_diff_cut": max(exact)} if exact else {}


def _whole(partition: Partition) -> dict[KernelKind, list[ov.Model]]:
    from agentrt.runtime.heg.kernel import KernelKind

    return {KernelKind.LAYERS: partition.layer_segments(())}


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
    pieces: Mapping[KernelKind, list[ov.Model]],
    properties: Mapping[str, Any],
    tokens: Sequence[int],
    passes: ForwardPasses,
) -> NDArray[np.float32]:
    """Return the logits ``[tokens, vocabulary]`` of all forward passes over ``tokens``."""
    import numpy as np

    model = Pieces(pieces, properties, len(tokens))
    lengths = [passes.chunk_tokens] * passes.chunks + [1] * passes.decode_steps
    logits: list[NDArray[np.float32]] = []
    past = 0
    for length in lengths:
        logits.append(model.forward(list(tokens[past : past + length]), past, rows=length))
        past += length
    return np.concatenate(logits)
