"""Collects the attention that tokens of running sequences are paid, from scores of completed batches."""

from __future__ import annotations

from ..heg.kernel import BatchContext
from ..kv.compression.density import AttentionMass
from ..scheduler.batch import ScheduledChunk


def note_attention(context: BatchContext, chunks: list[ScheduledChunk]) -> None:
    """Add the attention scores of a completed batch of ``chunks``, if it has any, to its sequences."""
    if not context.scores or context.inputs is None:
        return
    ends = context.inputs.subsequence_begins[1:]
    begin = row = 0
    for chunk, past, end in zip(chunks, context.inputs.past_lens, ends, strict=True):
        tokens = past + end - row
        sequence = chunk.sequence
        if sequence.attention is None:
            sequence.attention = AttentionMass()
        sequence.attention.add([layer[begin : begin + tokens] for layer in context.scores], past)
        begin, row = begin + tokens, end
