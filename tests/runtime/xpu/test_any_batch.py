"""With weights as they are in a GGUF file a token's logits do not depend on what is computed with it.

At the default precisions, bit for bit: however a prompt is divided into chunks of several tokens, however
the model is cut, whatever other sequences are in the batch, and whether a token is sampled or verified as a
draft.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.model.directory import open_model_directory
from agentrt.runtime.model.native.library import native_library
from agentrt.runtime.request.options import RawPrompt
from agentrt.runtime.xpu.loading import LoadedModel
from tests.hypothesis_profiles import examples
from tests.runtime.tiny import LAYERS, VOCABULARY, Piece, forward, load, tiny_gguf

pytestmark = pytest.mark.needs("c++")

TOKENS = np.random.default_rng(1).integers(5, VOCABULARY - 1, 400).tolist()
FIRST, SECOND, THIRD = range(16), range(16, 32), range(32, 48)
"""Block tables."""


@pytest.fixture(scope="module", params=[None, "f16"])
def pair(request: pytest.FixtureRequest, tiny_folder: Path) -> tuple[LoadedModel, LoadedModel]:
    """A model in one piece, and in segments of one layer; with keys of a processor that has no bf16, too."""
    file = tiny_gguf(tiny_folder, "qwen2")
    directory = open_model_directory(file, tiny_folder / "native", native=native_library)
    assert directory.keeps_weights
    properties = RuntimeConfig(threads=2, kv_cache_precision=request.param).device_properties(
        keeps_weights=True
    )
    whole = load(directory, segments=1, properties=properties)
    cut = load(directory, properties=properties)
    assert (len(whole.graph.bounds), len(cut.graph.bounds)) == (1, LAYERS)
    return whole, cut


def one_by_one(loaded: LoadedModel, past: int, count: int) -> NDArray[np.float32]:
    """The logits of ``count`` tokens behind a prompt of ``past`` tokens, each decoded alone."""
    forward(loaded, Piece(TOKENS[:past], table=FIRST))
    steps = [forward(loaded, Piece(TOKENS[at : at + 1], at, FIRST)) for at in range(past, past + count)]
    return np.concatenate(steps)


@examples(25)
@given(
    chunks=st.lists(st.integers(2, 90), min_size=1, max_size=4),
    beside=st.lists(st.integers(1, 40), max_size=2),
    cut=st.booleans(),
)
def test_a_prompt_may_be_divided_and_computed_beside_others(
    pair: tuple[LoadedModel, LoadedModel], chunks: list[int], beside: list[int], cut: bool
) -> None:
    expected = forward(pair[0], Piece(TOKENS[: sum(chunks)], table=FIRST))
    others = [Piece(TOKENS[-length:], 0, table) for length, table in zip(beside, (SECOND, THIRD))]  # noqa: B905
    for past, end in itertools.pairwise(itertools.accumulate(chunks, initial=0)):
        found = forward(pair[cut], Piece(TOKENS[past:end], past, FIRST), *others)
    np.testing.assert_array_equal(found[:1], expected)


@examples(25)
@given(past=st.integers(2, 120), drafted=st.integers(1, 24), beside=st.integers(0, 2), cut=st.booleans())
def test_a_draft_is_verified_as_its_tokens_are_decoded(
    pair: tuple[LoadedModel, LoadedModel], past: int, drafted: int, beside: int, cut: bool
) -> None:
    expected = one_by_one(pair[0], past, 1 + drafted)
    loaded = pair[cut]
    forward(loaded, Piece(TOKENS[:past], table=FIRST))
    rows = [Piece(TOKENS[at : at + 1], at, FIRST) for at in range(past, past + 1 + drafted)]
    others = [Piece(TOKENS[300 + length :][:1], 0, SECOND) for length in range(beside)]
    np.testing.assert_array_equal(forward(loaded, *rows, *others)[: 1 + drafted], expected)


def test_a_next_turn_has_the_same_logits_whether_the_cache_has_its_answer_or_not(tiny_folder: Path) -> None:
    config = RuntimeConfig(threads=2, profile_folder=tiny_folder)
    with LocalRuntime.open(tiny_gguf(tiny_folder, "qwen2"), config) as runtime:
        first = RawPrompt(tuple(TOKENS[:50]))
        answer = runtime.generate(first, app="one", max_tokens=60, ignore_eos=True)
        both = RawPrompt((*TOKENS[:50], *answer.token_ids, *TOKENS[50:60]))
        cached, fresh = (
            runtime.generate(both, app=app, max_tokens=20, ignore_eos=True, logprobs=1)
            for app in ("one", "other")
        )
    assert (cached.usage.cached_tokens, fresh.usage.cached_tokens) == (32, 0)
    assert len(cached.logprobs) == 20
    assert cached.logprobs == fresh.logprobs


@pytest.mark.check
def test_drafts_are_the_default_and_change_no_token(tiny_folder: Path) -> None:
    question = [{"role": "user", "content": "copy copy copy that that that copy copy copy"}]
    options: dict[str, Any] = {"max_tokens": 60, "ignore_eos": True, "app": "copies"}
    answers = []
    for drafts in (None, False):
        config = RuntimeConfig(drafts=drafts, threads=2, profile_folder=tiny_folder)
        with LocalRuntime.open(tiny_gguf(tiny_folder, "qwen2"), config) as runtime:
            answers.append([runtime.generate(question, **options).token_ids for _ in range(2)])
            accepted = runtime.statistics().engine.accepted_tokens
            assert (accepted > 0) == (drafts is None)
    assert answers[0] == answers[1]
    with LocalRuntime.open("nano", RuntimeConfig(profile_folder=tiny_folder)) as runtime:
        runtime.generate(question, max_tokens=20)
        assert runtime.statistics().engine.drafted_tokens == 0, "where they might change a token"
