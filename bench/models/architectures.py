"""Compares the answers of tiny random models of each architecture with those of Transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentrt.errors import ModelFormatError

from ..common.pieces import Pieces
from .families import FAMILIES, PROMPT, write_family

if TYPE_CHECKING:
    from agentrt.runtime.model.directory import ModelDirectory

EXPECTED_TOKENS: Final = Path(__file__).with_name("expected_tokens.json")
"""What Transformers answers, by family; ``tests/runtime/model/gguf/write_expected_tokens.py`` wrote it."""
_EXACT: Final = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
}


@dataclass(frozen=True, slots=True)
class ArchitectureResult:
    """How many of a family's greedy tokens are those of Transformers, from the first on."""

    family: str
    tokens: int
    equal: int

    @property
    def is_equal(self) -> bool:
        """Whether all tokens are equal."""
        return self.equal == self.tokens


def compare_architectures(folder: Path) -> list[ArchitectureResult]:
    """Write the tiny model of each family to ``folder``, convert it, and compare its greedy tokens.

    A family that cannot be converted has no equal token.
    """
    answers: dict[str, dict[str, Any]] = json.loads(EXPECTED_TOKENS.read_text(encoding="utf-8"))
    return [_compare(family, answers[family]["tokens"], folder) for family in FAMILIES]


def _compare(family: str, expected: Sequence[int], folder: Path) -> ArchitectureResult:
    from agentrt.runtime.model.directory import open_model_directory

    try:
        directory = open_model_directory(write_family(folder / f"{family}.gguf", family), folder)
    except ModelFormatError:
        return ArchitectureResult(family, len(expected), 0)
    found = _greedy_tokens(directory, len(expected))
    differing = (at for at, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    return ArchitectureResult(family, len(expected), next(differing, len(expected)))


def _greedy_tokens(directory: ModelDirectory, count: int) -> list[int]:
    """Answer the prompt of all families on paged attention, in float32."""
    from agentrt.runtime.heg.kernel import KernelKind
    from agentrt.runtime.heg.partition import Partition
    from agentrt.runtime.model.paged import read_paged_graph

    pieces = {KernelKind.LAYERS: Partition(read_paged_graph(directory)).layer_segments(())}
    model = Pieces(pieces, _EXACT, len(PROMPT) + count)
    tokens = [int(model.forward(PROMPT, 0, rows=1).argmax())]
    while len(tokens) < count:
        past = len(PROMPT) + len(tokens) - 1
        tokens.append(int(model.forward(tokens[-1:], past, rows=1).argmax()))
    return tokens
