from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.bench.speculation.replayed_chat import ReplayedChat
from agentrt.bench.speculation.scripted import Script
from agentrt.turns.turn import Turn
from tests.patience import until


class Drafting:
    """The turns whose predictors have not ended, for answers that wait for them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._turns: set[Turn] = set()
        start, draft_all = Turn.start, Turn._draft_all

        def noted_start(turn: Turn, host: Any) -> None:
            self._turns.add(turn)
            start(turn, host)
            if not turn._runs_predictors:
                self._turns.discard(turn)

        async def noted_drafts(turn: Turn, drafting: Any, runs: Any) -> None:
            try:
                await draft_all(turn, drafting, runs)
            finally:
                self._turns.discard(turn)

        patch.setattr(Turn, "start", noted_start)
        patch.setattr(Turn, "_draft_all", noted_drafts)

    def wait(self) -> None:
        until(lambda: not self._turns)

    async def await_(self) -> None:
        while self._turns:  # noqa: ASYNC110 - some end on other threads; the test has a time limit
            await asyncio.sleep(0.01)


@pytest.fixture
def answers_wait_for_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models answer once the predictors of their turn have ended, however quick either is."""
    drafting = Drafting(monkeypatch)
    monkeypatch.setattr(Script, "generate", lambda _: drafting.wait())
    monkeypatch.setattr(Script, "agenerate", lambda _: drafting.await_())

    def hold(model: Any) -> None:
        generate = model._agenerate

        async def generate_and_wait(*arguments: Any, **options: Any) -> Any:
            answer = await generate(*arguments, **options)
            await drafting.await_()
            return answer

        monkeypatch.setattr(model, "_agenerate", generate_and_wait)

    hold(ChatAgentRT)
    hold(ReplayedChat)
