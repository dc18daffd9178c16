"""What is in the tensors of a batch, whatever batches had the buffers before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.heg.kernel import BatchInputs
from agentrt.runtime.heg.partition import SCORE_WINDOWS
from agentrt.runtime.xpu.buffers import BatchBuffers, BufferPool
from tests.hypothesis_profiles import examples

LENGTHS = st.integers(1, 3) | st.integers(60, 140)
CHUNKS = st.lists(st.tuples(LENGTHS, st.integers(0, 100)), min_size=1, max_size=5)


def inputs_of(chunks: list[tuple[int, int]], token: int) -> BatchInputs:
    begins = [0]
    for length, _ in chunks:
        begins.append(begins[-1] + length)
    return BatchInputs(
        [token] * begins[-1],
        [past + at for length, past in chunks for at in range(length)],
        [past for _, past in chunks],
        begins,
        [list(range((past + length) // 32 + 1)) for length, past in chunks],
        max(past + length for length, past in chunks),
        [begin - 1 for begin in begins[1:]],
    )


@pytest.mark.hypothesis
@examples(200)
@given(batches=st.lists(st.tuples(CHUNKS, st.integers(0, 1)), min_size=1, max_size=6))
def test_every_input_is_that_of_the_batch(batches: list[tuple[list[tuple[int, int]], int]]) -> None:
    buffers = BatchBuffers(scored=True)
    for chunks, token in batches:
        inputs = inputs_of(chunks, token)
        buffers.load(inputs)
        expected = {
            "input_ids": inputs.token_ids,
            "position_ids": inputs.position_ids,
            "past_lens": inputs.past_lens,
            "subsequence_begins": inputs.subsequence_begins,
            "sampled_token_indices": inputs.sampled_rows,
            "block_indices": [block for table in inputs.block_tables for block in table],
            "max_context_len": inputs.max_context_len,
            SCORE_WINDOWS: [length for length, _ in chunks],
        }
        for name, values in expected.items():
            np.testing.assert_array_equal(buffers.input(name).data, values, name)


def test_tensors_stay_while_lengths_do() -> None:
    buffers = BatchBuffers()
    buffers.load(inputs_of([(1, 10), (1, 12)], 1))
    version, tensor = buffers.version, buffers.input("input_ids")
    buffers.load(inputs_of([(1, 11), (1, 13)], 2))
    assert buffers.version == version
    assert buffers.input("input_ids") is tensor
    buffers.load(inputs_of([(1, 12)], 2))
    assert buffers.version != version


def test_a_pool_prefers_buffers_of_as_many_tokens() -> None:
    pool = BufferPool()
    short, long = pool.take(inputs_of([(1, 10)], 1)), pool.take(inputs_of([(3, 10)], 1))
    pool.give_back(short)
    pool.give_back(long)
    assert pool.take(inputs_of([(1, 11)], 1)) is short
    assert pool.take(inputs_of([(2, 11)], 1)) is long, "others grow rather than new ones are made"
