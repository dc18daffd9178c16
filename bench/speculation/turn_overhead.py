"""Overhead of a turn on each path: CPU time beyond a plain turn, where its call claims a speculation."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.reports.events import CallClaimed, SpeculationEvent
from agentrt.testing import free_prediction
from agentrt.tools.speculable import speculable
from agentrt.turns.session import SpeculationSession

from ..common.estimates import Estimate, median, share
from ..common.process import SideProcess
from .replayed_chat import AwaitedChat

MODEL_S = 0.008  # long enough for the draft to come and its tool to run
TOOL_S = 0.006
HISTORY = 20  # messages that each request brings along
_WAIT_S = 0.001
_MOST_WAITS = 1000
_ARGUMENTS = {"q": "a"}
Turn = Callable[[], Awaitable[None]]


class Side:
    """One kind of turn: a tool, perhaps a predictor of the model's call, and what they led to."""

    def __init__(self, *, speculates: bool) -> None:
        self.name = "fixed draft"
        self.speculates = speculates
        self.turns = 0
        self.claimed = 0
        self._runs_ended = 0

        async def find(q: str) -> str:
            """Find something."""
            await asyncio.sleep(TOOL_S)
            self._runs_ended += 1
            return q

        self.find = find

    @property
    def counted(self) -> int:
        """How many turns were of this kind: with a claim if it speculates."""
        return self.claimed if self.speculates else self.turns

    def speculable_find(self, wrapped: Callable[[Any], Any] = lambda function: function) -> Any:
        """Return the tool, ``wrapped`` for a framework and declared speculable if the side speculates."""
        found = wrapped(self.find)
        return speculable(max_concurrency=64)(found) if self.speculates else found

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        yield ToolCall("find", _ARGUMENTS)

    def on_event(self, event: SpeculationEvent) -> None:
        self.claimed += isinstance(event, CallClaimed)

    async def generate(self) -> str:
        """Take the model's time, and wait until the tool that is run speculatively meanwhile has ended.

        On an idle machine it ended before; on a busy one its claim must not be a matter of luck. The wait
        ends after ``_MOST_WAITS`` rounds of the event loop, so that a turn without a speculation shows as
        unclaimed. Returns the id of the model's call.
        """
        ended, self.turns = self._runs_ended, self.turns + 1
        await asyncio.sleep(MODEL_S)
        for _ in range(_MOST_WAITS if self.speculates else 0):
            if self._runs_ended > ended:
                break
            await asyncio.sleep(_WAIT_S)
        return f"call_{id(self)}_{self.turns}"


def langchain_turn(side: Side) -> Turn:
    """Return a turn of a LangChain model and tool."""
    from agentrt.adapters.langchain import speculate

    async def reply(messages: object) -> AIMessage:
        call = {"name": "find", "args": dict(_ARGUMENTS), "id": await side.generate(), "type": "tool_call"}
        return AIMessage(content="", tool_calls=[call])

    chat: Any = AwaitedChat(reply=reply)
    model = speculate(chat, side, observers=[side]) if side.speculates else chat
    history = [("user", "hi"), *[("assistant", "as I said"), ("user", "and then?")] * (HISTORY // 2)]
    find = side.speculable_find(tool)
    bound = model.bind_tools([find])

    async def turn() -> None:
        answer: Any = await bound.ainvoke(history)
        await find.ainvoke({**answer.tool_calls[0], "type": "tool_call"})

    return turn


def plain_turn(side: Side) -> Turn:
    """Return a turn of a model and a tool without a framework."""

    async def turn() -> None:
        await side.generate()
        await side.find("a")

    return turn


def session_turn(side: Side, session: SpeculationSession) -> Turn:
    """Return a turn in a session on the side's tool."""
    history = [{"role": "user", "content": "and then?"}] * HISTORY

    async def turn() -> None:
        with session.turn(history, []) as turn:
            call = ToolCall("find", _ARGUMENTS, await side.generate())
            turn.bind([call])
        await session.acall(call)

    return turn


_WARM = 30
_COLLECT_EVERY = 50  # turns
_LOOP_STEPS = 8  # until the tasks of a turn have ended
METHOD = f"""\
sdk_overhead_claimed_turn_ms_p50: CPU time of the process in a turn whose one call claims its speculation, \
less that of the turn without speculation that was run before it, median of the turns with its 90 % \
interval, on the path that costs more. The model \
awaits {1000 * MODEL_S:g} ms, and the end of its call's speculation if there is one, the tool \
{1000 * TOOL_S:g} ms, the history has {HISTORY} messages, prediction counts as free, the sides are \
interleaved, garbage is collected between turns, and turns that did not claim are left out \
(sdk_overhead_turns_claimed is the share that claimed)."""


def overhead_figures(turns: int) -> dict[str, Estimate]:
    """Measure ``turns`` turns of each kind on each path; return the figures of the path that costs more.

    In a process of its own: threads that earlier parts of a bench have left behind take CPU time, too.
    """
    with SideProcess(_Process) as side:
        figures: dict[str, Estimate] = side.call("measure", turns)
        return figures


class _Process:
    def measure(self, turns: int) -> dict[str, Estimate]:
        with free_prediction():
            return asyncio.run(_measure(turns))


async def _measure(turns: int) -> dict[str, Estimate]:
    langchain, own = ([Side(speculates=each) for each in (False, True)] for _ in range(2))
    async with SpeculationSession([own[1].speculable_find()], [own[1]], observers=[own[1]]) as session:
        runs = [
            *((side, langchain_turn(side)) for side in langchain),
            (own[0], plain_turn(own[0])),
            (own[1], session_turn(own[1], session)),
        ]
        spent = await _cpu_ms(runs, turns)
    paths = [_added(spent[0], spent[1]), _added(spent[2], spent[3])]
    claimed = [share(side.claimed, side.turns) for side in (langchain[1], own[1])]
    return {
        "sdk_overhead_claimed_turn_ms_p50": max(paths, key=lambda each: each.value),
        "sdk_overhead_turns_claimed": min(claimed, key=lambda each: each.value),
    }


def _added(plain: Sequence[float | None], claimed: Sequence[float | None]) -> Estimate:
    """Return what a claim adds to the turn that was measured beside it."""
    return median([b - a for a, b in zip(plain, claimed, strict=True) if a is not None and b is not None])


async def _cpu_ms(sides: Sequence[tuple[Side, Turn]], turns: int) -> list[list[float | None]]:
    """Return the milliseconds of each turn of each side; None of one that did not claim."""
    spent: list[list[float | None]] = [[] for _ in sides]
    gc.collect()
    gc.disable()
    try:
        for turn in range(_WARM + turns):
            for (side, run), milliseconds in zip(sides, spent, strict=True):
                before = side.counted
                began = time.process_time_ns()
                await run()
                for _ in range(_LOOP_STEPS):
                    await asyncio.sleep(0)
                ms = (time.process_time_ns() - began) / 1e6
                if turn >= _WARM:
                    milliseconds.append(ms if side.counted > before else None)
            if turn % _COLLECT_EVERY == 0:
                gc.collect()
    finally:
        gc.enable()
    return spent
