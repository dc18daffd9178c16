"""The drafters that a request gets: from its tool cache, its prediction, its app, its grammar."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.drafting.app_history import AppHistories
from agentrt.runtime.drafting.drafter import Drafter
from agentrt.runtime.drafting.drafter_selector import AppDrafterSelector, RequestDrafters
from agentrt.runtime.request.request import Request
from agentrt.runtime.request.sampling_params import SamplingParams

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
