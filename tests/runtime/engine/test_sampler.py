from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import LogitsError
from agentrt.runtime.engine.logprobs import token_logprobs
from agentrt.runtime.engine.sampler import TokenSampler, gumbel_noise, sample_batch
from agentrt.runtime.request.sampling_params import SamplingParams

VOCABULARY = 50


def logits_of(*values: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the given logits, with the other tokens very unlikely."""
    return np.array([*values, *[-50.0] * (VOCABULARY - len(values))], np.float32)


def draws(params: SamplingParams, logits: Any, count: int = 4000) -> list[float]:
    """Return how often each of the first six tokens is drawn."""
    sampler = TokenSampler(params, VOCABULARY, [])
    tokens = [sampler.sample(logits) for _ in range(count)]
    return [tokens.count(token) / count for token in range(6)]


def test_a_batch_samples_each_row_as_alone() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(7, VOCABULARY)).astype(np.float32)
    params = [
        SamplingParams(),
        SamplingParams(temperature=1.0, seed=7),
        SamplingParams(logit_bias={3: 100.0}),
        SamplingParams(temperature=0.7, top_k=5, top_p=0.9, seed=1),
        SamplingParams(repetition_penalty=5.0),
        SamplingParams(temperature=2.0, min_p=0.1, seed=2),
        SamplingParams(frequency_penalty=2.0, presence_penalty=-1.0),
    ]

    def samplers() -> list[TokenSampler]:
        return [TokenSampler(each, VOCABULARY, [4]) for each in params]

    alone = [sample_batch([sampler], row[None])[0] for sampler, row in zip(samplers(), logits, strict=True)]
    assert sample_batch(samplers(), logits) == alone
    greedy = [TokenSampler(SamplingParams(), VOCABULARY, []) for _ in params]
    assert sample_batch(greedy, logits) == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ({}, [0.5, 0.3, 0.15, 0.05]),
        ({"temperature": 0.5}, np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365),
        ({"top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"top_k": 1}, [1, 0, 0, 0]),
        ({"top_p": 0.5}, [1, 0, 0, 0]),
        ({"top_p": 0.51}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.95}, [0.5 / 1, 0.3, 0.15, 0.05]),
        ({"min_p": 0.5}, [0.625, 0.375, 0, 0]),
        ({"min_p": 1.0}, [1, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.8}, [0.625, 0.375, 0, 0]),
    ],
)
def test_temperature_and_cutting_the_tail(cut: dict[str, Any], expected: Any) -> None:
    logits = logits_of(*(math.log(p) + 3 for p in (0.5, 0.3, 0.15, 0.05)))
    frequencies = draws(SamplingParams(**{"temperature": 1.0, "seed": 3} | cut), logits)
    np.testing.assert_allclose(frequencies[:4], expected, atol=0.03)


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-6])
def test_the_lowest_temperature_is_the_argmax(temperature: float) -> None:
    params = SamplingParams(temperature=temperature, seed=1)
    sampler = TokenSampler(params, 4, [])

    assert [sampler.sample(np.float32([-3e4, 2.0, 3e4, -np.inf])) for _ in range(5)] == [2] * 5


def test_logit_bias_bans_and_forces() -> None:
    logits = logits_of(5, 4, 3)
    banned = TokenSampler(SamplingParams(logit_bias={0: -100.0}), VOCABULARY, [])
    forced = TokenSampler(SamplingParams(logit_bias={30: 100.0}), VOCABULARY, [])
    assert (banned.sample(logits), forced.sample(logits)) == (1, 30)
    assert logits[0] == 5, "the logits are not changed"


def test_repetition_penalty_counts_prompt_and_answer() -> None:
    params = SamplingParams(repetition_penalty=2.0)
    assert TokenSampler(params, VOCABULARY, [0]).sample(logits_of(5, 3, 2)) == 1
    sampler = TokenSampler(params, VOCABULARY, [0])
    assert [sampler.sample(logits_of(5, 3, 2)) for _ in range(3)] == [1, 0, 0]
    assert TokenSampler(params, VOCABULARY, [0]).sample(logits_of(-1.0, -1.5)) == 1, "negative ones too"


@pytest.mark.parametrize(
    ("params", "prompt", "rows", "expected"),
    [
        # 5 | 4.75 4.9 | 4.75 4.65 | 4.5 4.65 | 4.5 4.4 | 4.25 4.4 4.3 | 4.25 4.15 4.3
        ({"frequency_penalty": 0.25}, [0, 0, 0, 1], [(5, 4.9, 4.3)] * 7, [0, 1, 0, 1, 0, 1, 2]),
        ({"presence_penalty": 0.25}, [0, 0], [(5, 4.9, 4.7)] * 4, [0, 1, 0, 0]),
        ({}, [], [(5, 4.9), *[(5, 6.9)] * 3], [0, 1, 1, 1]),
        ({"presence_penalty": -2.0}, [], [(5, 4.9), *[(5, 6.9)] * 3], [0, 0, 0, 0]),
        ({"frequency_penalty": -1.0}, [], [(5, 4.9), *[(5, 6.9)] * 3], [0, 1, 1, 1]),
    ],
)
def test_frequency_and_presence_penalties_count_the_answer(
    params: dict[str, float], prompt: list[int], rows: list[tuple[float, ...]], expected: list[int]
) -> None:
    sampler = TokenSampler(SamplingParams(**params), VOCABULARY, prompt)  # type: ignore[arg-type]
    sampler.extend_prompt([0, 0])  # given tokens are none of the answer, nor are those of the prompt
    assert [sampler.sample(logits_of(*row)) for row in rows] == expected


def test_many_occurrences_are_counted_exactly() -> None:
    sampler = TokenSampler(SamplingParams(frequency_penalty=0.1), VOCABULARY, [])
    chosen = [sampler.sample(logits_of(1000.05, 0)) for _ in range(10_002)]
    assert chosen == [0] * 10_001 + [1]


@pytest.mark.parametrize("cut", [{}, {"top_p": 0.9}, {"top_k": 40}, {"min_p": 0.01}])
def test_the_last_bits_of_logits_change_no_token(cut: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=2.0, size=(400, 5000)).astype(np.float32)
    nearly = logits + rng.normal(scale=2e-6, size=logits.shape).astype(np.float32)

    def sampled(rows: Any) -> list[int]:
        sampler = TokenSampler(SamplingParams(temperature=0.9, seed=4, **cut), 5000, [])
        return [sampler.sample(row) for row in rows]

    assert sampled(nearly) == sampled(logits)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=1.0, seed=1),
        SamplingParams(temperature=1e-307, top_p=0.5, min_p=0.1),
        SamplingParams(repetition_penalty=2.0),
        SamplingParams(frequency_penalty=2.0, presence_penalty=-2.0),
        SamplingParams(logit_bias={0: 1.0}, logprobs=2),
    ],
)
def test_logits_that_are_not_finite_end_only_their_own_request(params: SamplingParams, wrong: float) -> None:
    logits = np.zeros((3, VOCABULARY), np.float32)
    logits[:, 7] = 1.0
    logits[1, 30] = wrong
    samplers = [TokenSampler(each, VOCABULARY, [4]) for each in (SamplingParams(), params, SamplingParams())]
    first, failed, last = sample_batch(samplers, logits)
    assert (first, last) == (7, 7)
    assert isinstance(failed, LogitsError)
    assert "NaN or an infinity" in str(failed)


def test_no_possible_token_is_an_error() -> None:
    impossible = np.full(VOCABULARY, -np.inf, np.float32)
    with pytest.raises(LogitsError):
        TokenSampler(SamplingParams(), VOCABULARY, []).sample(impossible)
    # A grammar that allows no token at all.
    matcher: Any = SimpleNamespace(
        active=True, allows=lambda token: False, mask_logits=lambda logits: impossible, accept_token=print
    )
    for params in (SamplingParams(), SamplingParams(temperature=1.0, top_k=3)):
        with pytest.raises(LogitsError, match="allows"):
            TokenSampler(params, VOCABULARY, [], matcher).sample(logits_of(1, 2))


@given(
    st.lists(st.sampled_from([-np.inf, -2.0, -1.0, 0.0, 1.0]), min_size=1, max_size=30), st.integers(0, 40)
)
def test_the_likeliest_tokens_are_those_of_a_sorted_vocabulary(row: list[float], alternatives: int) -> None:
    row[0] = 0.5  # one is possible
    found = token_logprobs(np.array(row, np.float32), 0, alternatives)
    ranked = sorted((id for id, logit in enumerate(row) if logit > -np.inf), key=lambda id: (-row[id], id))
    assert [token for token, _ in found.top] == ranked[:alternatives]


# Any that :class:`SamplingParams` accepts, the extremes among them.
PARAMS = st.builds(
    SamplingParams,
    temperature=st.floats(0, 100) | st.sampled_from([5e-324, 1e-307, 1e-46]),
    top_p=st.floats(0, 1, exclude_min=True) | st.just(5e-324),
    top_k=st.integers(0, 2 * VOCABULARY),
    min_p=st.floats(0, 1) | st.just(5e-324),
    repetition_penalty=st.floats(0.01, 100),
    frequency_penalty=st.floats(-2, 2),
    presence_penalty=st.floats(-2, 2),
    logit_bias=st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(-100, 100), max_size=3),
    seed=st.integers(0, 9),
    logprobs=st.none() | st.just(2),
)


@given(
    PARAMS,
    st.lists(
        st.floats(width=32, min_value=-1e6, max_value=1e6) | st.just(-math.inf),
        min_size=VOCABULARY,
        max_size=VOCABULARY,
    ),
    st.sets(st.integers(0, VOCABULARY - 1), min_size=1),
)
def test_every_accepted_parameter_samples_a_possible_token_that_the_grammar_allows(
    params: SamplingParams, values: list[float], allowed: set[int]
) -> None:
    logits = np.array(values, np.float32)
    mask = np.isin(np.arange(VOCABULARY), list(allowed))
    matcher: Any = SimpleNamespace(
        active=True,
        allows=allowed.__contains__,
        mask_logits=lambda logits: np.where(mask, logits, np.float32(-np.inf)),
        accept_token=lambda token: None,
    )
    possible = mask & np.isfinite(logits)
    sampler = TokenSampler(params, VOCABULARY, [1, 2], matcher)
    (token,) = sample_batch([sampler], logits[None])
    if possible.any():
        assert isinstance(token, int)
        assert possible[token]
    else:
        assert isinstance(token, LogitsError)


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=VOCABULARY, max_size=VOCABULARY),
    st.floats(0.01, 5), st.integers(0, 60), st.floats(0.01, 1), st.floats(0, 1), st.integers(0, 2**32),
)  # fmt: skip
def test_only_tokens_that_every_cut_allows(
    values: list[float], temperature: float, top_k: int, top_p: float, min_p: float, seed: int
) -> None:
    logits = np.array(values, np.float32)
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    token = TokenSampler(params, VOCABULARY, []).sample(logits)
    likelier = int((logits > logits[token]).sum())
    assert likelier < (top_k or VOCABULARY)
    weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    top = np.sort(weights)[::-1][: top_k or VOCABULARY]
    # Logits that are too close to differ in probability are a tie; any of them may be sampled.
    heavier = weights[weights > weights[token]]
    assert heavier.sum() < top_p * top.sum() * (1 + 1e-9) or not len(heavier)
    assert weights[token] >= min_p * weights.max() * (1 - 1e-9)


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
