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


class Branch(NamedTuple):
    """Draft tokens beside the draft of a chunk: one more path of the token tree (sd.npu §3.3).

    It is computed as a sequence of its own behind the same blocks, whose last, incomplete one is copied. So
    attention needs no mask, and nothing is moved: the branch that is accepted has its blocks already.
    """

    tokens: tuple[int, ...]
    place: int
    """Place in the block table of the block that the chunk's token is in."""
    blocks: tuple[int, ...]
    """In place of those from there on. They are at the end of the sequence's table, too."""
    copies: bool
    """Whether the first of them begins as the block at ``place`` does."""


class ScheduledChunk(NamedTuple):
    """Tokens of one sequence in a batch: ``tokens[start : start + length]``."""

    sequence: Sequence
    length: int
    samples: bool
    """Whether the chunk ends with the last known token, so that its logits give the next one."""
    draft: tuple[int, ...] = ()
    """Draft tokens computed behind the ``length`` tokens; each gives a row of logits, so that the next can be
    verified."""
    prompt_rows: int = 0
    """Rows of logits in front of these: behind the last tokens of the chunk that are not sampled from."""
    branches: tuple[Branch, ...] = ()
    """Only of a chunk of one token. Each draft token of theirs gives a row behind those of the draft."""
    skipped: int = 0
    """Tokens before these, behind ``computed_tokens``, that another part of the batch computes."""

    @property
    def start(self) -> int:
        """Tokens of the sequence before it."""
        return self.sequence.computed_tokens + self.skipped

    @property
    def logits_rows(self) -> int:
        """How many rows of logits the chunk gives."""
        branched = sum(len(branch.tokens) for branch in self.branches)
        return self.prompt_rows + (1 + len(self.draft) + branched if self.samples else 0)

    def subsequences(self, *, drafts_alone: bool) -> int:
        """Return how many sequences attention has for it; see :func:`inputs_of`."""
        lengths = [len(self.draft), *(len(branch.tokens) for branch in self.branches)]
        return len(lengths) + sum(lengths) * drafts_alone


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
    ahead: BatchContext | None = None
    """Where its only chunk is computed by both XPUs (§6.1): the context of the first tokens of the chunk.
    Those of :attr:`context` follow them, layer by layer, since they attend to them."""
    preempted: bool = False
    """Whether a more urgent kernel has been launched since the batch's last kernel."""
    interruptible: bool = False
    """Whether a kernel of it may be interrupted and run once more: its chunks begin with their blocks, so
    that keys and values are written as before."""
    interrupted_at: int | None = None
    """The place of the kernel that was interrupted last, by which the batch has written to its blocks."""
    failed: bool | None = None
    """Whether a kernel of it hung, if one has failed while another ran, until whose end the batch stays."""

    @property
    def contexts(self) -> tuple[BatchContext, ...]:
        """:attr:`ahead`, if there is one, and :attr:`context`."""
        return (self.context,) if self.ahead is None else (self.ahead, self.context)

    @property
    def running_on(self) -> Role | None:
        """An XPU that runs one of its kernels now."""
        ahead = None if self.ahead is None else self.ahead.running_on
        return ahead or self.context.running_on

    @property
    def is_complete(self) -> bool:
        """Whether all its kernels are done."""
        return all(context.next_kernel is None for context in self.contexts)

    def startable(self) -> list[BatchContext]:
        """The contexts of which the next kernel may start: what it attends to has been written."""
        if self.failed is not None or (self.ahead is not None and self.all_finished):
            return []
        found = []
        for context in self.contexts:
            kernel = context.next_kernel
            if kernel is None or context.running_on is not None:
                continue
            first = None if context is self.ahead else self.ahead
            if first is None or kernel.layers.stop <= first.attended_layers:
                found.append(context)
        return found

    def chunks_of(self, context: BatchContext) -> list[ScheduledChunk]:
        """Return the chunks that ``context`` computes."""
        if self.ahead is None:
            return self.chunks
        (chunk,), tokens = self.chunks, self.ahead.shape.tokens
        if context is self.ahead:
            return [chunk._replace(length=tokens, samples=False, prompt_rows=0)]
        return [chunk._replace(length=chunk.length - tokens, skipped=tokens)]

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
        return self.interrupted_at is not None or any(context.position for context in self.contexts)

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
        branched = sum(1 + len(branch.tokens) for branch in chunk.branches)
        tokens += chunk.length + len(chunk.draft) + branched
        subsequences = chunk.subsequences(drafts_alone=drafts_alone)
        sequences += subsequences
        past += chunk.start * subsequences
        rows += chunk.logits_rows
    return BatchShape(tokens, sequences, past, rows)


def inputs_of(chunks: list[ScheduledChunk], *, drafts_alone: bool) -> BatchInputs:
    """Return the inputs of the forward pass over ``chunks``. Call it before the first kernel is submitted.

    With ``drafts_alone`` each draft token is a sequence of one token, so that it is computed as without a
    draft. Blocks of keys that are quantised by channel cannot be written so. A branch begins with the token
    of its chunk, which is computed once more in its blocks.
    """
    tokens: list[int] = []
    positions: list[int] = []
    past: list[int] = []
    begins = [0]
    rows: list[int] = []
    longest = 0
    tables: list[list[int]] = []
    copies: list[tuple[int, int]] = []
    for sequence, length, samples, draft, prompt_rows, branches, skipped in chunks:
        start = sequence.computed_tokens + skipped
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
        for branch in branches:
            table = [*sequence.blocks[: branch.place], *branch.blocks]
            if branch.copies:
                copies.append((sequence.blocks[branch.place], branch.blocks[0]))
            end = start + 1 + len(branch.tokens)
            pasts = range(start, end) if drafts_alone else range(start, start + 1)
            past += pasts
            tables += [table] * len(pasts)
            begins += range(len(tokens) + 1, len(tokens) + len(pasts))
            rows += range(len(tokens) + 1, len(tokens) + end - start)
            tokens += (sequence.tokens[start], *branch.tokens)
            positions += range(start, end)
            begins.append(len(tokens))
            longest = max(longest, end)
    held = [chunk.sequence.states for chunk in chunks]
    states = [states.access for states in held if states is not None and states.access is not None]
    return BatchInputs(tokens, positions, past, begins, tables, longest, rows, states, copies)
