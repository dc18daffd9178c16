"""Drafts from the logits of prompts (sd.npu §3.3)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.drafting.calibration import CalibratedPrompts, CalibrationDrafter

VOCABULARY = 12
CLINTON, S, SECURITY, HAS, ARRIVED, AT, DES, MOINES = range(8)
CONTEXT = [CLINTON, S, SECURITY, HAS, ARRIVED, AT, DES, MOINES]
PREDICTED = [ARRIVED, SECURITY, HAS, ARRIVED, AT, DES, MOINES, CLINTON]
"""What the model predicts behind each token of the context."""
tokens = st.integers(0, VOCABULARY - 1)


def logits_of(predicted: Sequence[int]) -> np.ndarray:
    return np.eye(VOCABULARY, dtype=np.float32)[list(predicted)].reshape(-1, VOCABULARY)


def drafter(prompt: Sequence[int], predicted: Sequence[int], to: CalibratedPrompts) -> CalibrationDrafter:
    """The prompt's last token has the last prediction."""
    made = CalibrationDrafter(prompt, to)
    made.observe_prompt(0, logits_of(predicted[:-1]))
    made.observe((), logits_of(predicted[-1:]))
    return made


def trusting() -> CalibratedPrompts:
    """Prompts of an app whose model does as it predicts."""
    prompts = CalibratedPrompts()
    taught = drafter([*CONTEXT, CLINTON], [*PREDICTED, ARRIVED], prompts)
    for _ in range(40):
        if not (draft := taught.draft().tokens):
            break
        taught.append(draft[0])
    return prompts


def test_the_model_s_own_words_are_drafted_in_place_of_the_prompt_s() -> None:
    """Figure 9: 's follows in the text, but the model says arrived, and goes on behind that word."""
    draft = drafter([*CONTEXT, CLINTON], [*PREDICTED, ARRIVED], trusting()).draft()
    assert draft.tokens[:4] == (ARRIVED, AT, DES, MOINES)


def test_predictions_outlast_the_request_because_cached_prompts_are_not_computed_again() -> None:
    prompts = trusting()
    again = CalibrationDrafter([*CONTEXT, CLINTON], prompts)
    assert again.draft().tokens[:4] == (ARRIVED, AT, DES, MOINES)


def test_what_proves_wrong_is_drafted_no_more() -> None:
    prompts = CalibratedPrompts()
    drafting = drafter([*CONTEXT, CLINTON], [*PREDICTED, ARRIVED], prompts)
    for _ in range(60):
        drafting.draft()
        drafting.append(MOINES)
        drafting.append(CLINTON)
    assert len(drafting.draft().tokens) <= 1


@given(
    prompt=st.lists(tokens, min_size=2, max_size=60),
    predicted=st.lists(tokens, min_size=60, max_size=60),
    cuts=st.lists(st.integers(0, 59), max_size=4),
    answer=st.lists(tokens, max_size=20),
)
def test_every_drafted_token_is_one_that_the_model_predicts_there(
    prompt: list[int], predicted: list[int], cuts: list[int], answer: list[int]
) -> None:
    """However the prompt was divided, and whatever parts of it were not computed."""
    prompts = CalibratedPrompts()
    drafting = CalibrationDrafter(prompt, prompts)
    known: dict[int, set[int]] = {}
    ends = sorted({min(cut, len(prompt) - 1) for cut in cuts})
    for begin, end in itertools.pairwise(ends):
        if (begin + end) % 3:
            drafting.observe_prompt(begin, logits_of(predicted[begin:end]))
            for place in range(begin, end):
                known.setdefault(prompt[place], set()).add(predicted[place])
    if known:
        drafting.observe((), logits_of(predicted[len(prompt) - 1 : len(prompt)]))
        known.setdefault(prompt[-1], set()).add(predicted[len(prompt) - 1])
    last = prompt[-1]
    for token in [None, *answer]:
        if token is not None:
            drafting.append(token)
            last = token
        before = last
        for drafted in drafting.draft().tokens:
            assert drafted in known[before]
            before = drafted


def test_an_app_s_prompts_take_bounded_memory() -> None:
    prompts = CalibratedPrompts()
    sizes = []
    for _ in range(12):
        drafter([1, *range(8)] * 1200, [2] * 10_800, prompts)
        sizes.append(prompts.memory_bytes)
    assert max(sizes) < 6e6
