"""Draft tokens of any drafter: tokens are the same with right, wrong and too long drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.scheduler.draft import MAX_DRAFT_TOKENS, Draft
from tests.runtime.engine.test_engine import PROMPT, submit

TOKENS = 40

pytestmark = pytest.mark.usefixtures("whole_drafts")


class ScriptedDrafter:
    """Drafts the next ``length`` tokens of a script; every ``wrong``-th of them is another token."""

    def __init__(self, script: Sequence[int], length: int, wrong: int = 0) -> None:
        self.seen: list[int] = []
        self.observed: list[tuple[tuple[int, ...], list[int]]] = []
        self._script = [
            (token + 1) % 2048 if wrong and index % wrong == wrong - 1 else token
            for index, token in enumerate(script)
        ]
        self._length = length

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        self.observed.append((tuple(verified), logits.argmax(-1).tolist()))

    def append(self, token: int) -> None:
        self.seen.append(token)

    def draft(self) -> Draft:
        tokens = tuple(self._script[len(self.seen) :][: self._length])
        return Draft(tokens, (1.0,) * len(tokens))


def sampled(runtime: LocalRuntime, drafter: Any = None, **params: Any) -> tuple[int, ...]:
    prompt = PROMPT[:30]  # within one KV block, so that it is one chunk under any profile
    return submit(runtime, TOKENS, prompt=prompt, drafter=drafter, **params).output.result(30).token_ids


@pytest.mark.matrix
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 1.5, "seed": 3},
        {"repetition_penalty": 1.3},
        {"frequency_penalty": 0.7, "presence_penalty": 0.4},
    ],
)
@pytest.mark.parametrize("wrong", [0, 1, 3])
@pytest.mark.parametrize("length", [1, 5, 1000])
def test_drafts_change_no_token(
    runtime: LocalRuntime, before: EngineStatistics, length: int, wrong: int, params: dict[str, Any]
) -> None:
    plain = sampled(runtime, **params)
    middle = runtime.statistics().engine
    drafter = ScriptedDrafter(plain, length, wrong)
    assert sampled(runtime, drafter, **params) == plain
    assert drafter.seen == list(plain[:-1]), "every token but the last, in order"
    after = runtime.statistics().engine
    drafted = after.drafted_tokens - middle.drafted_tokens
    accepted = after.accepted_tokens - middle.accepted_tokens
    assert len(drafter.observed) == after.steps - middle.steps
    assert all(len(rows) == 1 + len(verified) for verified, rows in drafter.observed)
    assert drafted > 0
    assert (accepted == drafted) == (wrong == 0)
    assert (accepted == 0) == (wrong == 1)
    assert after.steps - middle.steps == len(plain) - accepted
    assert middle.drafted_tokens == before.drafted_tokens, "without a drafter nothing is drafted"


def test_no_draft_is_longer_than_the_limit(runtime: LocalRuntime, gate: Any) -> None:
    request = submit(runtime, 1000, prompt=PROMPT[:30], drafter=ScriptedDrafter([0] * 1000, 1000))
    gate.arrived()
    gate.step()
    assert len(request.sequence.draft.tokens) == MAX_DRAFT_TOKENS
    (chunk,) = gate.steps[-1]
    assert 0 < len(chunk.draft) <= MAX_DRAFT_TOKENS
    runtime._engine.cancel(request)
    gate.open()
    request.output.result(30)


class BrokenDrafter(ScriptedDrafter):
    """Raises at its third token."""

    def draft(self) -> Draft:
        if len(self.seen) == 3:
            raise RuntimeError("broken")
        return super().draft()


def test_a_drafter_that_raises_costs_only_its_drafts(runtime: LocalRuntime) -> None:
    plain = sampled(runtime)
    beside = submit(runtime, TOKENS, prompt=PROMPT[:30])
    assert sampled(runtime, BrokenDrafter(plain, 1)) == plain
    assert beside.output.result(30).token_ids == plain
    assert sampled(runtime) == plain


def test_tokens_outside_the_vocabulary_are_not_verified(
    runtime: LocalRuntime, before: EngineStatistics
) -> None:
    plain = sampled(runtime)
    assert sampled(runtime, ScriptedDrafter([10**6] * TOKENS, 2)) == plain
    assert runtime.statistics().engine.drafted_tokens == before.drafted_tokens
