"""What may go wrong beside a chat model, and must not be noticed; and a chat model as a draft."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from agentrt import DraftRequest, ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.adapters.langchain.speculation.turns import ChatModelSpeculator, tool_calls
from agentrt.drafts import DraftCost
from agentrt.errors import ConfigurationError, NotSpeculableError
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Milestones, ScriptedChat, Waiting
from tests.adapters.langchain.graphs import INPUT, THREE, adrive, agent, async_tool, sync_tool
from tests.patience import PATIENCE_S


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


# A chat model as a draft.


async def drafts(model: ScriptedChat, use_async: bool, request: DraftRequest) -> list[ToolCall]:
    speculator = ChatModelSpeculator(model, [HumanMessage("hi")], [], use_async=use_async)
    return [call async for call in speculator.drafts(request)]


@pytest.mark.parametrize("use_async", [False, True])
def test_the_calls_of_every_sample_are_drafts(use_async: bool) -> None:
    threads: list[threading.Thread] = []
    model = ScriptedChat(
        script=[[("look", {"q": "a"}), ("look", {"q": "b"})]],
        gate=lambda turn: threads.append(threading.current_thread()),
    )
    found = asyncio.run(drafts(model, use_async, DraftRequest([], [], 3)))
    assert [(call.name, call.arguments) for call in found] == [
        ("look", {"q": "a"}),
        ("look", {"q": "b"}),
    ] * 3
    assert model.asked == [0, 0, 0]
    assert threading.main_thread() not in threads
    assert len(threads) == (0 if use_async else 3)


def test_one_sample_that_fails_does_not_take_the_others_along() -> None:
    class Flaky(ScriptedChat):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            if not self.asked:
                self.asked.append(0)
                raise ConnectionError("refused")
            return await super()._agenerate(*args, **kwargs)

    found: list[ToolCall] = []

    async def collect() -> None:
        model = Flaky(script=[[("look", {})]])
        speculator = ChatModelSpeculator(model, [HumanMessage("hi")], [], use_async=True)
        async for call in speculator.drafts(DraftRequest([], [], 3)):
            found.append(call)

    with pytest.raises(ConnectionError):
        asyncio.run(collect())
    assert len(found) == 2


class Metered(ScriptedChat):
    """Reports its usage, as a provider does."""

    def _begin(self, messages: list[Any]) -> AIMessage:
        message = super()._begin(messages)
        message.usage_metadata = {"input_tokens": 1000, "output_tokens": 20, "total_tokens": 1020}
        return message


@pytest.mark.parametrize("use_async", [False, True])
@pytest.mark.parametrize(("model", "cost"), [(Metered, DraftCost(3000, 60)), (ScriptedChat, DraftCost(18))])
def test_samples_are_charged_by_their_usage_or_by_the_estimate(
    model: type[ScriptedChat], cost: DraftCost, use_async: bool
) -> None:
    spent: list[DraftCost] = []

    request = DraftRequest([{"role": "x"}], [], 3, spend=spent.append)
    assert asyncio.run(drafts(model(), use_async, request)) == []
    assert sum(spent, DraftCost()) == cost


@pytest.mark.parametrize("use_async", [False, True])
def test_samples_that_are_cut_off_have_cost_what_they_sent(use_async: bool) -> None:
    spent: list[DraftCost] = []
    asked, go_on = threading.Semaphore(0), threading.Event()

    class Slow(Metered):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            asked.release()
            assert go_on.wait(PATIENCE_S)
            return super()._generate(*args, **kwargs)

        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            asked.release()
            await asyncio.Event().wait()

    async def main() -> None:
        request = DraftRequest([{"role": "x"}], [], 2, spend=spent.append)
        task = asyncio.create_task(drafts(Slow(), use_async, request))
        for _ in range(2):
            await asyncio.to_thread(asked.acquire)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert sum(spent, DraftCost()) == DraftCost(12)
    go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("agentrt draft"):
            thread.join(PATIENCE_S)
    # A thread cannot be stopped: the provider answers the request, and bills it.
    assert sum(spent, DraftCost()) == (DraftCost(12) if use_async else DraftCost(2000, 40))


def test_a_sample_that_the_budget_does_not_allow_is_not_sent() -> None:
    model = ScriptedChat()
    spent: list[DraftCost] = []
    request = DraftRequest([], [], 3, spend=spent.append, affords=lambda cost: len(spent) < 2)
    assert asyncio.run(drafts(model, True, request)) == []
    assert len(model.asked) == len(spent) == 2


def test_only_well_formed_calls_of_an_answer_count() -> None:
    call = {"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}
    broken = {"name": "g", "args": "{", "id": "2", "error": "x", "type": "invalid_tool_call"}
    assert tool_calls(AIMessage("", tool_calls=[call], invalid_tool_calls=[broken])) == [
        ToolCall("f", {"x": 1}, "1")
    ]
    assert tool_calls(HumanMessage("hi")) == []
