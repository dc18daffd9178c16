"""Draft tokens of any drafter: tokens are the same with right, wrong and too long drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.drafting.drafter import MAX_DRAFT_TOKENS
from tests.runtime.engine.test_engine import PROMPT, submit

TOKENS = 40


class ScriptedDrafter:
    """Drafts the next ``length`` tokens of a script; every ``wrong``-th of them is another token."""

    def __init__(self, script: Sequence[int], length: int, wrong: int = 0) -> None:
        self.seen: list[int] = []
        self._script = [
            (token + 1) % 2048 if wrong and index % wrong == wrong - 1 else token
            for index, token in enumerate(script)
        ]
        self._length = length

    def draft(self, token: int) -> Sequence[int]:
        self.seen.append(token)
        return self._script[len(self.seen) :][: self._length]


def sampled(runtime: LocalRuntime, drafter: Any = None, **params: Any) -> tuple[int, ...]:
    prompt = PROMPT[:30]  # within one KV block, so that it is one chunk under any profile
    return submit(runtime, TOKENS, prompt=prompt, drafter=drafter, **params).output.result(30).token_ids


@pytest.mark.parametrize("params", [{}, {"temperature": 1.5, "seed": 3}, {"repetition_penalty": 1.3}])
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
    assert drafted > 0
    assert (accepted == drafted) == (wrong == 0)
    assert (accepted == 0) == (wrong == 1)
    assert after.steps - middle.steps == len(plain) - accepted
    assert middle.drafted_tokens == before.drafted_tokens, "without a drafter nothing is drafted"


def test_no_draft_is_longer_than_the_limit(runtime: LocalRuntime, gate: Any) -> None:
    request = submit(runtime, 1000, prompt=PROMPT[:30], drafter=ScriptedDrafter([0] * 1000, 1000))
    gate.arrived()
    gate.step()
    assert [len(chunk.draft) for chunk in gate.steps[-1]] == [MAX_DRAFT_TOKENS]
    runtime._engine.cancel(request)
    gate.open()
    request.output.result(30)
