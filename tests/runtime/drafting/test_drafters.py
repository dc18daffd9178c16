"""The drafters of a request: which it gets, whose draft is taken, and drafts from the predicted answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import InvalidRequestError
from agentrt.priority import Priority
from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.drafting.acceptance import AcceptanceModel
from agentrt.runtime.drafting.app_history import AppHistories
from agentrt.runtime.drafting.drafter import Drafter, DraftSources
from agentrt.runtime.drafting.drafter_selector import AppDrafterSelector, RequestDrafters
from agentrt.runtime.drafting.prediction import PredictionDrafter, count_accepted
from agentrt.runtime.request.request import Request
from agentrt.runtime.request.sampling_params import SamplingParams
from agentrt.runtime.scheduler.draft import MAX_DRAFT_TOKENS, NO_DRAFT, Draft
from tests.hypothesis_profiles import examples

END = 2
CACHE: Any = SimpleNamespace()


def request(app: str = "notes", **options: Any) -> Request:
    return Request(
        prompt_token_ids=[1, 5, 6, 7],
        sampling_params=SamplingParams(),
        priority=Priority.REACTIVE,
        end_tokens=frozenset({END}),
        max_total_tokens=64,
        context_length=64,
        prefix_salt=app.encode(),
        app=app,
        **options,
    )


def names(selected: RequestDrafters) -> list[str]:
    return [type(each).__name__ for each in selected.drafters]


def ended(tokens: tuple[int, ...]) -> Future[Any]:
    output: Future[Any] = Future()
    output.set_result(SimpleNamespace(token_ids=tokens))
    return output


@pytest.mark.parametrize(
    ("histories", "predicted", "expected"),
    [
        (False, (), ["SimpleNamespace"]),
        (False, (5, 6), ["SimpleNamespace", "PredictionDrafter"]),
        (True, (), ["SimpleNamespace", "RetrievalDrafter"]),
        (True, (5, 6), ["SimpleNamespace", "PredictionDrafter", "RetrievalDrafter"]),
    ],
)
def test_a_request_gets_what_it_asks_for(
    histories: bool, predicted: tuple[int, ...], expected: list[str]
) -> None:
    selector = AppDrafterSelector(END, histories=AppHistories() if histories else None)
    selected = selector.select(request(predicted_token_ids=predicted), CACHE)
    assert names(selected) == expected
    assert names(selector.select(request(predicted_token_ids=predicted), None)) == expected[1:]
    assert selected.completer is None


def test_a_model_that_verifies_no_drafts_drafts_calls_only() -> None:
    selector = AppDrafterSelector(END, verifies_drafts=False)
    assert names(selector.select(request(predicted_token_ids=(5, 6)), CACHE)) == ["SimpleNamespace"]


def test_an_answer_is_added_to_the_history_of_its_app() -> None:
    selector = AppDrafterSelector(END, histories=AppHistories())
    first = selector.select(request(), None)
    first.add_answer(ended((5, 6, 7, 30, 31, 32)))
    (again,) = selector.select(request(), None).drafters
    assert again.draft().tokens[:3] == (30, 31, 32)
    (other,) = selector.select(request(app="mail"), None).drafters
    assert not other.draft().tokens


@pytest.mark.parametrize("ends", [Future.cancel, lambda output: output.set_exception(OSError())])
def test_an_answer_that_is_not_complete_is_not_added(ends: Any) -> None:
    selector = AppDrafterSelector(END, histories=AppHistories())
    output: Future[Any] = Future()
    ends(output)
    selected = selector.select(request(), None)
    selected.add_answer(output)
    RequestDrafters().add_answer(ended((5, 6)))  # without a history
    assert selected.history is not None
    assert all(not len(source.index) for source in selected.history.sources)


def test_another_selector_may_take_the_place_of_the_runtimes_own(
    runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = []

    class Noting:
        def select(self, request: Request, tool_cache: Drafter | None) -> RequestDrafters:
            prompts.append(request.prompt_token_ids)
            return RequestDrafters()

    monkeypatch.setattr(runtime, "drafter_selector", Noting())
    generation = runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=2)
    assert [len(prompt) for prompt in prompts] == [generation.usage.prompt_tokens]


VOCABULARY = 100
LOGITS = np.zeros((1, VOCABULARY), np.float32)


class Fixed(Drafter):
    """Drafts the same at all times, or raises in one of its methods."""

    def __init__(self, draft: Draft, fails_in: str = "") -> None:
        self.fixed = draft
        self.fails_in = fails_in
        self.appended: list[int] = []

    def _maybe_fail(self, method: str) -> None:
        if method == self.fails_in:
            raise RuntimeError("broken")

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        self._maybe_fail("observe")

    def append(self, token: int) -> None:
        self._maybe_fail("append")
        self.appended.append(token)

    def draft(self) -> Draft:
        self._maybe_fail("draft")
        return self.fixed


SHORT = Draft((1, 2), (1.0, 1.0))
LONG = Draft((3, 4, 5), (0.5, 0.5, 0.5))


def test_the_draft_with_the_most_expected_tokens_is_taken() -> None:
    assert DraftSources([Fixed(LONG), Fixed(SHORT)], VOCABULARY).draft() == SHORT
    assert DraftSources([Fixed(NO_DRAFT), Fixed(LONG)], VOCABULARY).draft() == LONG
    assert DraftSources([Fixed(NO_DRAFT)], VOCABULARY).draft() == NO_DRAFT
    same = Draft((7, 8), (1.0, 1.0))
    assert DraftSources([Fixed(same), Fixed(SHORT)], VOCABULARY).draft() == same
    assert LONG.expected_tokens == 0.875


def test_alternatives_are_all_other_paths_the_likeliest_first() -> None:
    source = Fixed(Draft((3, 9), (0.4, 0.4)))
    begun, other = Draft((3, 4), (0.6, 0.6)), Draft((6,), (0.3,))
    source.alternatives = [other, begun, Draft((6,), (0.1,)), NO_DRAFT, SHORT]
    sources = DraftSources([source, Fixed(LONG), Fixed(SHORT)], VOCABULARY)
    assert sources.draft() == SHORT
    assert list(sources.alternatives) == [begun, LONG, source.fixed, other], "none begins another"


@pytest.mark.parametrize("method", ["observe", "append", "draft"])
def test_a_source_that_raises_is_used_no_more(method: str, caplog: pytest.LogCaptureFixture) -> None:
    broken, good = Fixed(SHORT, fails_in=method), Fixed(LONG)
    sources = DraftSources([broken, good], VOCABULARY)
    for _ in range(3):
        sources.observe((), LOGITS)
        sources.append(9)
        assert sources.draft() == LONG
    assert good.appended == [9, 9, 9]
    assert [record.getMessage() for record in caplog.records] == [
        "Fixed failed; this answer goes on without its drafts."
    ]


@pytest.mark.parametrize("token", [-1, VOCABULARY, 2**40])
def test_tokens_outside_the_vocabulary_end_their_source(token: int) -> None:
    sources = DraftSources([Fixed(Draft((1, token), (1.0, 1.0))), Fixed(LONG)], VOCABULARY)
    assert sources.draft() == LONG
    assert sources.draft() == LONG
    outside = Fixed(SHORT)
    outside.alternatives = [Draft((1, token), (1.0, 1.0))]
    assert DraftSources([outside, Fixed(LONG)], VOCABULARY).draft() == LONG


LAST = 9
TEXT = tuple(range(100, 140))
MESSAGES = [{"role": "user", "content": "Tell me about the weather in Paris."}]


def drafter(prediction: tuple[int, ...] = TEXT) -> PredictionDrafter:
    return PredictionDrafter(prediction, LAST, AcceptanceModel())


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
    assert (*TEXT, LAST)[: len(first)] == first
    long = tuple(range(1000, 2000))
    assert followed(long[:200], long) == long[200 : 200 + MAX_DRAFT_TOKENS]
    assert followed(TEXT) == (LAST,), "the answer is expected to end where the prediction ends"


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
    assert (*rest, LAST)[: len(draft)] == draft


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
    assert drafter(()).draft().tokens == (LAST,)
    assert PredictionDrafter((), None, AcceptanceModel()).draft() == NO_DRAFT


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ((*TEXT, LAST), 40),
        (TEXT[:7], 7),
        ((*TEXT[:5], 1, *TEXT[6:], LAST), 39),
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
        assert set(drafts.draft().tokens) <= {*prediction, LAST}
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
    for empty in (None, content(""), content([]), content([{"type": "text", "text": ""}])):
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
