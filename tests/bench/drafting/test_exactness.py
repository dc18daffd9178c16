"""Answers that drafts change are seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentrt.bench.drafting.exactness import share_of_identical_answers
from agentrt.bench.drafting.prompt_sets import Prompt, PromptSet
from agentrt.bench.drafting.sides import Ours, Vanilla

pytestmark = pytest.mark.real_model

SETS = [PromptSet("x", (Prompt(({"role": "user", "content": "Hello! Hello! Hello!"},)),), True)]


class _Other(Vanilla):
    """A side that changes the answer: it ends the answer after its first tokens."""

    name = "other"

    def drafters(self, request: Any, new: Callable[[], list[Any]]) -> list[Any]:
        object.__setattr__(request, "max_total_tokens", len(request.prompt_token_ids) + 4)
        return []


@pytest.mark.parametrize(("sides", "share"), [([Ours()], 1.0), ([Ours(), _Other()], 0.5)])
def test_the_share_of_identical_answers(sides: list[Any], share: float) -> None:
    found = share_of_identical_answers("nano", SETS, sides, 12, 2**26, lambda line: None)
    assert found == share
