from __future__ import annotations

import numpy as np
import pytest

from agentrt.priority import Priority
from agentrt.runtime.engine.engine import note_attention
from agentrt.runtime.heg.kernel import BatchContext
from agentrt.runtime.scheduler.batch import ScheduledChunk, inputs_of
from agentrt.runtime.scheduler.sequence import Sequence


def batch(*lengths: tuple[int, int, int]) -> tuple[BatchContext, list[ScheduledChunk]]:
    """Return a batch of one chunk for each of ``lengths``: tokens computed before, in it, and drafted."""
    chunks = []
    for number, (past, length, drafted) in enumerate(lengths):
        sequence = Sequence(number, Priority.REACTIVE, list(range(past + length)))
        sequence.computed_tokens = past
        chunks.append(ScheduledChunk(sequence, length, True, tuple(range(drafted))))
    inputs = inputs_of(chunks)
    return BatchContext(0, inputs, inputs.shape, ()), chunks


def test_each_sequence_gets_its_own_scores() -> None:
    context, chunks = batch((2, 2, 0), (0, 4, 0))
    layer = np.array([2, 0, 0, 0, 0, 0, 0, 4], np.float32)
    context.scores = [layer, layer]
    note_attention(context, chunks)
    first, second = (chunk.sequence.attention for chunk in chunks)
    assert first is not None
    assert second is not None
    assert first.densities(2, 2) == [0.5, 0.0]
    assert second.densities(2, 2) == [0.0, pytest.approx(2.0)]


def test_drafted_tokens_count_as_new_ones() -> None:
    context, chunks = batch((3, 1, 2))
    context.scores = [np.full(6, 0.5, np.float32)]
    note_attention(context, chunks)
    attention = chunks[0].sequence.attention
    assert attention is not None
    assert attention.densities(3, 1) == [pytest.approx(0.5 / 3)]


def test_without_scores_nothing_is_noted() -> None:
    context, chunks = batch((0, 4, 0))
    note_attention(context, chunks)
    assert chunks[0].sequence.attention is None
