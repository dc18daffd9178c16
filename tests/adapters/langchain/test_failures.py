"""What may go wrong beside a chat model, and must not be noticed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool

from agentrt import speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.errors import ConfigurationError, NotSpeculableError
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Milestones, ScriptedChat, Waiting
from tests.adapters.langchain.graphs import (
    INPUT,
    THREE,
    adrive,
    agent,
    async_tool,
    sync_tool,
)


class Broken(ScriptedChat):
    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        raise ConnectionError("refused")


@pytest.mark.parametrize(
    ("draft_s", "drafts", "seconds"),
    [(10**6, 0, 3 * 17 + 10), (1, 2, 3 * 10 + 10)],
    ids=["hangs", "is right"],
)
def test_a_predictor_that_fails_or_hangs_is_not_noticed(draft_s: int, drafts: int, seconds: int) -> None:
    predictors = [Broken(), ScriptedChat(script=THREE, delay=draft_s)]
    model = speculate(ScriptedChat(script=THREE, delay=10), predictors, samples=2)

    async def main() -> float:
        messages = await adrive(agent(model, [async_tool(7, [])]), False)
        assert messages[-1].content == "done"
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(main) == seconds
    turn = report_of(model).turns[0]
    assert (set(turn.problems), turn.drafts) == ({"Broken failed: ConnectionError"}, drafts)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stream_that_is_left_early_discards_its_speculations(asynchronous: bool) -> None:
    milestones = Milestones()
    look = sync_tool([], milestones)
    model = speculate(
        ScriptedChat(script=THREE, gate=lambda turn: milestones.wait("started q0")),
        ScriptedChat(script=THREE),
    )
    bound = model.bind_tools([look])

    async def leave() -> None:
        chunks = bound.astream("hi")
        await anext(chunks)
        await asyncio.to_thread(milestones.wait, "started q0")
        await chunks.aclose()  # type: ignore[attr-defined]

    if asynchronous:
        asyncio.run(leave())
    else:
        chunks = bound.stream("hi")
        next(chunks)
        chunks.close()  # type: ignore[attr-defined]
    (turn,) = report_of(model).turns
    assert (turn.wasted, turn.generation_s) == (1, None)


def test_a_tool_called_on_the_loops_own_thread_does_not_wait() -> None:
    milestones = Milestones()

    @speculable
    @tool
    def look(q: str) -> str:
        """Look something up."""
        if threading.current_thread() is not threading.main_thread():
            milestones.reach(f"started {q}")
            milestones.wait("released")
        return f"found {q}"

    async def main() -> str:
        model = speculate(Waiting(script=THREE, milestones=milestones), ScriptedChat(script=THREE))
        answer = await model.bind_tools([look]).ainvoke("hi")
        made = {**answer.tool_calls[0], "type": "tool_call"}
        result = look.invoke(made)  # blocks the loop: the user's choice
        assert report_of(model).turns[0].calls[0].reason == "waiting for it would have blocked an event loop"
        return str(result.content)

    try:
        assert asyncio.run(main()) == "found q0"
    finally:
        milestones.reach("released")


def test_wrong_use_raises() -> None:
    plain = ScriptedChat()
    with pytest.raises(ConfigurationError, match="bind_tools"):
        speculate(plain.bind_tools([]), plain)
    with pytest.raises(ConfigurationError, match="at least one predictor"):
        speculate(plain, [])
    with pytest.raises(ConfigurationError, match="a predictor"):
        speculate(plain, [plain, "x"])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="samples is 0"):
        speculate(plain, plain, samples=0)
    with pytest.raises(ConfigurationError, match="speculate"):
        report_of(plain)

    @speculable
    def look(q: str) -> str:
        """Look something up."""
        return q

    @tool
    @speculable
    async def alook(q: str) -> str:
        """Look something up."""
        return q

    for wrong in (look, tool(look), alook):
        with pytest.raises(NotSpeculableError, match="above @tool"):
            speculate(plain, plain).bind_tools([wrong])
        with pytest.raises(NotSpeculableError, match="above @tool"):
            create_agent(speculate(plain, plain), [wrong]).invoke(INPUT)
