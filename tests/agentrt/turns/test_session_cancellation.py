"""What a turn or a session started ends with it, once, and cleaned up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentrt import DraftRequest, SpeculationConfig, SpeculationSession, ToolCall, speculable
from agentrt.concurrency.tasks import CLEAN_UP_SECONDS
from agentrt.config import TurnAhead
from agentrt.testing import ScriptedSpeculator
from agentrt.tools.speculable import speculable_tool
from tests.agentrt.loops import in_virtual_time
from tests.agentrt.turns.sessions import call, drafting, drive, now, one_turn, slow_tool
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("clean_up_s", [0, 7])
def test_losers_and_predictors_are_cancelled_once_when_the_model_answers(clean_up_s: float) -> None:
    ended: list[str] = []

    @speculable
    async def look(q: str) -> str:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(clean_up_s)  # as a connection is given back: the session waits for it
            await asyncio.sleep(0)
            ended.append(q)
        return q

    assert drive(look, [drafting(call("a")), drafting(call("late"), delay=50)], []).seconds == 1 + clean_up_s
    assert ended == ["a"]


@in_virtual_time
async def test_a_turn_that_fails_leaves_nothing_running_and_raises_its_error() -> None:
    runs: list[str] = []

    async def fail(session: SpeculationSession) -> None:
        with session.turn([], []):
            await asyncio.sleep(1)
            raise ZeroDivisionError

    async with SpeculationSession([slow_tool(100, runs)], drafting(call("a"))) as session:
        with pytest.raises(ZeroDivisionError):
            await fail(session)
    assert now() == 1
    assert runs == ["a"]


def test_closing_the_session_cancels_what_was_bound_and_never_made() -> None:
    assert drive(slow_tool(100, []), drafting(call("a")), [call("a")], makes=False).seconds == 1


@in_virtual_time
async def test_cancelling_the_call_cancels_its_run() -> None:
    cancelled = []

    @speculable
    async def look(q: str) -> str:
        try:
            await asyncio.sleep(100)
        finally:
            cancelled.append(q)
        return q

    async with SpeculationSession([look], drafting(call("a"))) as session:
        with session.turn([], []) as turn:
            await asyncio.sleep(1)
            turn.bind([call("a")])
        claiming = asyncio.create_task(session.acall(call("a")))
        await asyncio.sleep(1)
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
        await asyncio.sleep(1)
        assert cancelled == ["a"]


@in_virtual_time
async def test_a_speculation_times_out_but_not_once_its_call_is_made() -> None:
    runs: list[str] = []

    @speculable(timeout=10)
    async def look(q: str) -> str:
        runs.append(q)
        await asyncio.sleep(30)
        return q

    predictor = ScriptedSpeculator([call("a")], [call("a")])
    async with SpeculationSession([look], [predictor]) as session:
        times = [(await one_turn(session, generation, call("a")))[1] for generation in (5, 20)]
    assert session.report().turns[1].calls[0].reason == "the speculation took longer than 10.0 s"
    assert times == [30, 50]
    assert runs == ["a", "a", "a"]


@pytest.mark.parametrize("bound", [[], [call("a")]])
def test_a_loser_in_a_thread_runs_to_its_end_and_holds_its_place_until_then(bound: list[ToolCall]) -> None:
    """So does one whose call is never made, once its session is closed."""
    started, release = threading.Event(), threading.Event()

    @speculable(max_concurrency=1)
    def look(q: str) -> str:
        started.set()
        release.wait()
        return q

    tool = speculable_tool(look)
    assert tool is not None
    with SpeculationSession([look], drafting(call("a"))) as session, session.turn([], []) as turn:
        assert started.wait(PATIENCE_S)
        turn.bind(bound)
    assert session.report().total.wasted == 1
    assert not tool.slots.acquire(blocking=False)
    release.set()
    assert tool.slots.acquire(timeout=PATIENCE_S)


async def never(q: str = "") -> str:
    """Go on for an hour, whatever cancels it."""
    end = now() + 3600
    while now() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(end - now())
    return f"found {q}"


class Never:
    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        await never()
        yield call("late")


@pytest.mark.parametrize("bound", [[], [call("a")]])
@pytest.mark.parametrize("who", ["look", "Never", "discard", "guard"])
@in_virtual_time
async def test_what_swallows_its_cancellation_is_abandoned_and_named(
    who: str, bound: list[ToolCall], caplog: pytest.LogCaptureFixture
) -> None:
    async def prepare(q: str) -> str:
        return q

    async def allow(arguments: object) -> bool:
        return bool(await never())

    options: dict[str, dict[str, Any]] = {
        "discard": {"prepare": prepare, "commit": never, "discard": never},
        "guard": {"guard": allow},
    }

    @speculable(**options.get(who, {}))
    async def look(q: str) -> str:
        return await never(q) if who == "look" else f"found {q}"

    predictor = Never() if who == "Never" else ScriptedSpeculator([call("a")])
    async with SpeculationSession([look], [predictor]) as session:
        with session.turn([], []) as turn:
            await asyncio.sleep(1)
            turn.bind(bound)
    left = now()
    await asyncio.sleep(3600)  # it goes on, and nothing comes of it
    assert session.report().total.claims == 0
    assert left == 1 + CLEAN_UP_SECONDS
    name = {"Never": "Never", "guard": "ScriptedSpeculator"}.get(who, "look")
    problem = f"{name} did not end within 10 s of its cancellation: abandoned"
    assert problem in session.report().turns[0].problems
    assert f"{name} has not ended 10 s after its cancellation" in caplog.text


@in_virtual_time
async def test_a_request_sent_ahead_that_swallows_its_cancellation_is_abandoned() -> None:
    async def model(messages: Any, tools: Any) -> Any:
        if messages:
            return {"role": "assistant", "content": await never("the next")}
        await asyncio.sleep(5)
        return {"role": "assistant", "content": "no call"}

    config = SpeculationConfig(turn_ahead=TurnAhead())
    predictor = ScriptedSpeculator([call("a")])
    async with SpeculationSession([slow_tool(1, [])], [predictor], config=config) as session:
        await session.ask(model, [], [])
    left, problems = now(), session.report().turns[1].problems
    assert left == 5 + CLEAN_UP_SECONDS
    assert "a lookahead request did not end within 10 s of its cancellation: abandoned" in problems


def test_a_predictor_is_cancelled_once_and_may_clean_up() -> None:
    done: list[str] = []

    class Careful:
        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            try:
                await asyncio.sleep(100)
                yield call("late")
            finally:
                await asyncio.sleep(2)  # as a connection is given back
                done.append("cleaned up")

    assert drive(slow_tool(1, []), Careful(), [call("a")]).seconds == 1 + 2
    assert done == ["cleaned up"]
