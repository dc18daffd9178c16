"""Drafts from the predicted answer: followed, left and found again; what the answer has of it is counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import InvalidRequestError
from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.drafting.app_history import AcceptanceModel
from agentrt.runtime.drafting.prediction import PredictionDrafter, count_accepted
from agentrt.runtime.scheduler.draft import MAX_DRAFT_TOKENS, NO_DRAFT
from tests.hypothesis_profiles import examples

END = 9
TEXT = tuple(range(100, 140))
MESSAGES = [{"role": "user", "content": "Tell me about the weather in Paris."}]


def drafter(prediction: tuple[int, ...] = TEXT) -> PredictionDrafter:
    return PredictionDrafter(prediction, END, AcceptanceModel())


def followed(answer: tuple[int, ...], prediction: tuple[int, ...] = TEXT) -> tuple[int, ...]:
    """What is drafted behind ``answer``."""
    drafts = drafter(prediction)
    for token in answer:
        drafts.append(token)
    draft = drafts.draft()
    assert len(draft.tokens) == len(draft.probabilities)
    return draft.tokens


def test_the_prediction_is_drafted_from_the_first_token_on() -> None:
    first = followed(())
    assert first
    assert (*TEXT, END)[: len(first)] == first
    assert followed(TEXT) == (END,), "the answer is expected to end where the prediction ends"


def test_followed_predictions_are_drafted_further() -> None:
    drafts = drafter(tuple(range(1000, 2000)))
    for token in range(1000, 1200):
        drafts.append(token)
    assert drafts.draft().tokens == tuple(range(1200, 1200 + MAX_DRAFT_TOKENS))


@pytest.mark.parametrize(
    ("answer", "rest"),
    [
        ((*TEXT[:5], 1), TEXT[6:]),
        ((*TEXT[:5], 1, 2, 3), TEXT[8:]),
        ((*TEXT[:5], 1, 2, 3, 4, *TEXT[5:8]), TEXT[8:]),
        ((*TEXT[:5], *TEXT[20:22]), TEXT[22:]),
        ((1, 2, 3, *TEXT[:2]), TEXT[2:]),
    ],
    ids=["one token replaced", "three replaced", "four inserted", "fifteen left out", "begins otherwise"],
)
def test_an_answer_that_differs_is_found_again(answer: tuple[int, ...], rest: tuple[int, ...]) -> None:
    draft = followed(answer)
    assert draft
    assert (*rest, END)[: len(draft)] == draft


def test_of_several_places_the_nearest_is_taken() -> None:
    repeated = (1, 2, 10, 1, 2, 20, 1, 2, 30)
    assert followed((1, 2, 10, 50, 1, 2), repeated)[0] == 20


def test_predictions_that_are_never_right_are_not_drafted_for_long() -> None:
    drafts = drafter(tuple(range(1000, 1400)))
    for token in range(200):
        drafts.append(token)
    assert drafts.draft().expected_tokens < 0.1


def test_behind_the_prediction_nothing_is_drafted() -> None:
    assert followed((*TEXT, 1, 2, 3)) == ()
    assert drafter(()).draft().tokens == (END,)
    assert PredictionDrafter((), None, AcceptanceModel()).draft() == NO_DRAFT


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ((*TEXT, END), 40),
        (TEXT[:7], 7),
        ((*TEXT[:5], 1, *TEXT[6:], END), 39),
        ((1, 2, 3), 0),
        ((*TEXT[:10], *TEXT[:10]), 10),
        ((), 0),
    ],
)
def test_what_the_answer_has_of_the_prediction_is_counted_once(
    answer: tuple[int, ...], accepted: int
) -> None:
    assert count_accepted(TEXT, answer) == accepted


@examples(200)
@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=60))
def test_any_answer_is_followed(prediction: list[int], answer: list[int]) -> None:
    drafts = drafter(tuple(prediction))
    for token in answer:
        drafts.append(token)
        assert set(drafts.draft().tokens) <= {*prediction, END}
    assert 0 <= count_accepted(prediction, answer) <= len(prediction)


def content(text: Any) -> dict[str, Any]:
    return {"type": "content", "content": text}


def test_a_predicted_answer_takes_few_forward_passes(runtime: LocalRuntime, before: EngineStatistics) -> None:
    plain = runtime.generate(MESSAGES, max_tokens=60)
    middle = runtime.statistics().engine
    predicted = runtime.generate(MESSAGES, max_tokens=60, prediction=content(plain.text))
    after = runtime.statistics().engine
    assert (predicted.text, predicted.token_ids) == (plain.text, plain.token_ids)
    assert after.steps - middle.steps < middle.steps - before.steps
    usage = predicted.usage
    tokens = len(runtime._tokenizer.encode(plain.text))
    assert (usage.accepted_prediction_tokens, usage.rejected_prediction_tokens) == (tokens, 0)


def test_a_wrong_prediction_changes_nothing(runtime: LocalRuntime) -> None:
    plain = runtime.generate(MESSAGES, max_tokens=40)
    other = runtime.generate(MESSAGES, max_tokens=40, prediction=content("0 1 2 3 4 5 6 7 8 9"))
    assert other.token_ids == plain.token_ids
    assert other.usage.rejected_prediction_tokens > other.usage.accepted_prediction_tokens


@pytest.mark.parametrize("empty", [None, content(""), content([]), content([{"type": "text", "text": ""}])])
def test_empty_predictions_are_none(runtime: LocalRuntime, empty: Any) -> None:
    usage = runtime.generate(MESSAGES, max_tokens=3, prediction=empty).usage
    assert (usage.accepted_prediction_tokens, usage.rejected_prediction_tokens) == (0, 0)


@pytest.mark.parametrize(
    ("prediction", "field"),
    [
        ("text", "prediction"),
        ({}, "prediction"),
        ({"type": "text", "content": "x"}, "prediction"),
        ({"type": "content"}, "prediction.content"),
        (content(7), "prediction.content"),
        (content(b"x"), "prediction.content"),
        (content([{"type": "image_url"}]), "prediction.content[0]"),
        (content([{"type": "text", "text": 7}]), "prediction.content[0].text"),
        (content("\ud800"), "prediction.content"),
    ],
)
def test_wrong_predictions_are_refused(runtime: LocalRuntime, prediction: Any, field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        runtime.generate(MESSAGES, prediction=prediction)
    assert refused.value.field == field
