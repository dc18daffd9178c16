"""A batch of scheduled chunks: what one forward pass computes, and how far it has come."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from ..heg.kernel import BatchContext, BatchInputs, BatchShape, Role
from .sequence import REACTIVE_LEVEL, Sequence, SequenceState


class Stage(enum.Enum):
    """The stage of inference that a batch computes."""

    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"
    """Both, under :attr:`Policy.mixed_batches` or :attr:`Policy.mixes`."""


class ScheduledChunk(NamedTuple):
    """Tokens of one sequence in a batch: ``tokens[computed_tokens : computed_tokens + length]``."""

    sequence: Sequence
    length: int
    samples: bool
    """Whether the chunk ends with the last known token, so that its logits give the next one."""
    draft: tuple[int, ...] = ()
    """Draft tokens computed behind the ``length`` tokens; each gives a row of logits, so that the next can be
    verified."""
    prompt_rows: int = 0
    """Rows of logits in front of these: behind the last tokens of the chunk that are not sampled from."""

    @property
    def logits_rows(self) -> int:
        """How many rows of logits the chunk gives."""
        return self.prompt_rows + (1 + len(self.draft) if self.samples else 0)


@dataclass(slots=True, eq=False)
class Batch:
    """One forward pass over some scheduled chunks, executed kernel by kernel.

    It may pause between two kernels for any time: its residual stream stays in its context.
    """

    chunks: list[ScheduledChunk]
    stage: Stage
    level: int
    """The priority level of its most urgent sequence."""
    context: BatchContext
    """The paper's ``ReqContext``: the kernels, how many are done, and the activations between two of them."""
    running_on: Role | None = None
    """The XPU that runs one of its kernels now."""
    preempted: bool = False
    """Whether a more urgent kernel has been launched since the batch's last kernel."""
    interruptible: bool = False
    """Whether a kernel of it may be interrupted and run once more: its chunks begin with their blocks, so
    that keys and values are written as before."""
    interrupted_at: int | None = None
    """The place of the kernel that was interrupted last, by which the batch has written to its blocks."""

    @property
    def sequences(self) -> list[Sequence]:
        """The sequences of its chunks, in order."""
        return [chunk.sequence for chunk in self.chunks]

    @property
    def is_background(self) -> bool:
        """Whether all its sequences are background work."""
        return self.level > REACTIVE_LEVEL

    @property
    def has_written(self) -> bool:
        """Whether kernels of it have run, so that it has written keys and values."""
        return self.context.position > 0 or self.interrupted_at is not None

    @property
    def promoted(self) -> bool:
        """Whether any of its sequences is promoted."""
        return any(chunk.sequence.promoted for chunk in self.chunks)

    @property
    def all_finished(self) -> bool:
        """Whether all its sequences have finished, so that its result is not needed."""
        for chunk in self.chunks:  # noqa: SIM110 - asked after each kernel, a generator costs more
            if chunk.sequence.state is not SequenceState.FINISHED:
                return False
        return True


def shape_of(chunks: list[ScheduledChunk], *, drafts_alone: bool) -> BatchShape:
    """Return the shape that the cost of a batch of ``chunks`` depends on; see :func:`inputs_of`."""
    tokens = sequences = past = rows = 0
    for chunk in chunks:
        tokens += chunk.length + len(chunk.draft)
        subsequences = 1 + len(chunk.draft) * drafts_alone
        sequences += subsequences
        past += chunk.sequence.computed_tokens * subsequences
        rows += chunk.logits_rows
    return BatchShape(tokens, sequences, past, rows)


def inputs_of(chunks: list[ScheduledChunk], *, drafts_alone: bool) -> BatchInputs:
    """Return the inputs of the forward pass over ``chunks``. Call it before the first kernel is submitted.

    With ``drafts_alone`` each draft token is a sequence of one token, so that it is computed as without a
    draft. Blocks of keys that are quantised by channel cannot be written so.
    """
    tokens: list[int] = []
    positions: list[int] = []
    past: list[int] = []
    begins = [0]
    rows: list[int] = []
    longest = 0
    tables: list[list[int]] = []
    for sequence, length, samples, draft, prompt_rows in chunks:
        start = sequence.computed_tokens
        end = start + length
        if length == 1:
            tokens.append(sequence.tokens[start])
            positions.append(start)
        else:
            tokens += sequence.tokens[start:end]
            positions += range(start, end)
        past.append(start)
        tables.append(sequence.blocks)
        if draft:
            if drafts_alone:
                begins += range(len(tokens), len(tokens) + len(draft))
                past += range(end, end + len(draft))
                tables += [sequence.blocks] * len(draft)
            tokens += draft
            positions += range(end, end + len(draft))
            end += len(draft)
        begins.append(len(tokens))
        if samples or prompt_rows:
            end_row = len(tokens)
            rows += range(end_row - samples - prompt_rows - len(draft), end_row)
        if end > longest:
            longest = end
    held = [chunk.sequence.states for chunk in chunks]
    states = [states.access for states in held if states is not None and states.access is not None]
    return BatchInputs(tokens, positions, past, begins, tables, longest, rows, states)
