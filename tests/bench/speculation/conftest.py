from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.bench.speculation.replayed_chat import AwaitedChat
from agentrt.turns.turn import Turn
from agentrt.turns.turn_predictors import TurnPredictors


class Drafting:
    """The turns whose predictors have not ended, for answers that wait for them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._turns: set[TurnPredictors] = set()
        start, run = Turn.start, TurnPredictors.run

        def noted_start(turn: Turn, host: Any) -> None:
            self._turns.add(turn._predictors)
            start(turn, host)
            if turn._host is None:
                self._turns.discard(turn._predictors)

        async def noted_run(predictors: TurnPredictors, *args: Any, **options: Any) -> None:
            try:
                await run(predictors, *args, **options)
            finally:
                self._turns.discard(predictors)

        patch.setattr(Turn, "start", noted_start)
        patch.setattr(TurnPredictors, "run", noted_run)

    async def await_(self) -> None:
        while self._turns:  # noqa: ASYNC110 - some end on other threads; the test has a time limit
            await asyncio.sleep(0.01)


@pytest.fixture
def answers_wait_for_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models answer once the predictors of their turn have ended, however quick either is."""
    drafting = Drafting(monkeypatch)

    def hold(model: Any) -> None:
        generate = model._agenerate

        async def generate_and_wait(*arguments: Any, **options: Any) -> Any:
            answer = await generate(*arguments, **options)
            await drafting.await_()
            return answer

        monkeypatch.setattr(model, "_agenerate", generate_and_wait)

    hold(ChatAgentRT)
    hold(AwaitedChat)
