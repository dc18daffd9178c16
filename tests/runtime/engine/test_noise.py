from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.engine.sampler import gumbel_noise

IDS = np.arange(200_000)


@given(st.integers(0, 2**64 - 1), st.integers(0, 100_000), st.lists(st.integers(0, 200_000), max_size=50))
def test_a_token_has_the_same_noise_among_any_others(seed: int, step: int, ids: list[int]) -> None:
    noise = gumbel_noise(seed, step, np.array(ids, np.int64))
    assert np.isfinite(noise).all()
    assert noise.tolist() == [gumbel_noise(seed, step, np.array([each])).item() for each in ids]


def test_the_noise_is_gumbels() -> None:
    noise = np.sort(gumbel_noise(1, 2, IDS))
    expected = -np.log(-np.log((IDS + 0.5) / len(IDS)))
    middle = slice(1000, -1000)
    np.testing.assert_allclose(noise[middle], expected[middle], atol=0.1)
    assert abs(noise.mean() - np.euler_gamma) < 0.01
    assert abs(noise.std() - np.pi / np.sqrt(6)) < 0.01


def test_steps_seeds_and_neighbours_are_not_correlated() -> None:
    noise = [gumbel_noise(seed, step, IDS) for seed, step in ((1, 0), (1, 1), (2, 0))]
    for one, other in ((noise[0], noise[1]), (noise[0], noise[2]), (noise[0][1:], noise[0][:-1])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.01
