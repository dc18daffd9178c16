"""A pass as the scheduler sees it: which part of which sequences, and where it stands."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from ..heg.kernel import BatchContext, BatchInputs, BatchShape, Role
from .sequence import Sequence, SequenceState


class Stage(enum.Enum):
    """What a pass is for."""

    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"
    """Both; where :attr:`Policy.mixed_batches` or :attr:`Policy.background_mixes`."""


class ScheduledChunk(NamedTuple):
    """The part of one sequence that a pass computes: ``tokens[computed : computed + length]``."""

    sequence: Sequence
    length: int
    samples: bool
    """Whether the slice ends with the last known token, so that its logits give the next one."""
    draft: tuple[int, ...] = ()
    """Tokens that are computed behind those, to be verified: each has its logits as well."""

    @property
    def rows(self) -> int:
        """How many rows of logits it gives."""
        return 1 + len(self.draft) if self.samples else 0


@dataclass(slots=True, eq=False)
class Batch:
    """One forward over some slices, all of it or what is left of it.

    Between two kernels it may pause as long as it likes: its residual stream stays in its context.
    """

    chunks: list[ScheduledChunk]
    stage: Stage
    rank: int
    """The class whose turn it takes: that of its most urgent sequence."""
    context: BatchContext
    """The paper's ``ReqContext``: the kernels, how many are done, and what lies between two of them."""
    role: Role | None = None
    """Where one of its kernels is running now."""
    paused: bool = False
    """Whether something more urgent has overtaken it since its last kernel."""

    @property
    def sequences(self) -> list[Sequence]:
        """Whose parts it computes, in the order of its slices."""
        return [chunk.sequence for chunk in self.chunks]

    @property
    def promoted(self) -> bool:
        """Whether one of its sequences is."""
        return any(sequence.promoted for sequence in self.sequences)

    @property
    def abandoned(self) -> bool:
        """Whether nobody wants its result any more."""
        return all(sequence.state is SequenceState.FINISHED for sequence in self.sequences)


def shape_of(chunks: list[ScheduledChunk]) -> BatchShape:
    """What a pass over ``slices`` costs depends on this."""
    tokens = past = rows = 0
    for chunk in chunks:
        tokens += chunk.length + len(chunk.draft)
        past += chunk.sequence.computed
        rows += chunk.rows
    return BatchShape(tokens, len(chunks), past, rows)


def inputs_of(chunks: list[ScheduledChunk]) -> BatchInputs:
    """What a pass over ``slices`` computes, as numbers for an XPU; to be asked before the first kernel."""
    tokens: list[int] = []
    positions: list[int] = []
    past: list[int] = []
    begins = [0]
    rows: list[int] = []
    longest = 0
    for sequence, length, samples, draft in chunks:
        start = sequence.computed
        end = start + length
        if length == 1:
            tokens.append(sequence.tokens[start])
            positions.append(start)
        else:
            tokens += sequence.tokens[start:end]
            positions += range(start, end)
        if draft:
            tokens += draft
            positions += range(end, end + len(draft))
            end += len(draft)
        past.append(start)
        begins.append(len(tokens))
        if samples:
            rows += range(len(tokens) - 1 - len(draft), len(tokens))
        if end > longest:
            longest = end
    tables = [chunk.sequence.blocks for chunk in chunks]
    return BatchInputs(tokens, positions, past, begins, tables, longest, rows)
