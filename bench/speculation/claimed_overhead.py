"""Overhead of a turn whose call claims its speculation: CPU time beyond a plain turn, on each path."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.reports.events import CallClaimed, SpeculationEvent
from agentrt.testing import free_prediction
from agentrt.tools.speculable import speculable
from agentrt.turns.session import SpeculationSession

from ..common.process import SideProcess
from ..common.report import Table

_MODEL_S = 0.008  # long enough for the draft to come and its tool to run
_TOOL_S = 0.006
_WAIT_S = 0.001
_MOST_WAITS = 1000
_HISTORY = 20  # messages that each request brings along
_WARM = 30
_COLLECT_EVERY = 50  # turns
_LOOP_STEPS = 8  # until the tasks of a turn have ended
METHOD = (
    f"sdk_overhead_claimed_turn_ms_p50: CPU time of the process in a turn whose one call claims its "
    f"speculation, less that of the same turn without speculation, median of the turns, on the path that "
    f"costs more; the model awaits {1000 * _MODEL_S:g} ms and the end of its call's speculation, the tool "
    f"{1000 * _TOOL_S:g} ms, the history has {_HISTORY} messages, the controller takes prediction to be free "
    f"and so runs the predictor in every turn, the sides are interleaved, garbage is collected between "
    f"turns, and turns that did not claim are left out (sdk_overhead_turns_claimed is the share that did)."
)
Turn = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PathOverhead:
    """Milliseconds of CPU time in a turn of one path, plain and speculative, and the share that claimed."""

    path: str
    plain_ms: float
    speculative_ms: float
    claimed: float

    @property
    def added_ms(self) -> float:
        """What speculation adds to a turn."""
        return self.speculative_ms - self.plain_ms


def measure(turns: int) -> list[PathOverhead]:
    """Measure ``turns`` turns on each path, and as many without speculation beside them.

    In a process of its own: threads that earlier parts of a bench have left behind take CPU time, too.
    """
    with SideProcess(_Process) as side:
        measured: list[PathOverhead] = side.call("measure", turns)
        return measured


class _Process:
    def measure(self, turns: int) -> list[PathOverhead]:
        with free_prediction():
            return asyncio.run(_measure(turns))


@dataclass(frozen=True, slots=True)
class _Side:
    """One kind of turn: ``run`` runs one; ``claims`` counts those that claim their call, where each is to."""

    run: Turn
    claims: _Claims | None = None


async def _measure(turns: int) -> list[PathOverhead]:
    langchain, own = _Claims(), _Claims()
    find = _Find()
    early = speculable(max_concurrency=64)(find.run)
    async with SpeculationSession([early], [_Draft()], observers=[own]) as session:
        sides = [
            _Side(_langchain_turn(_Chat(), tool(_Find().run))),
            _Side(_speculative_langchain_turn(langchain), langchain),
            _Side(_plain_turn()),
            _Side(_session_turn(session, find), own),
        ]
        plain, speculative, bare, in_session = await _cpu_ms(sides, turns)
    made = turns + _WARM
    return [
        PathOverhead("LangChain", plain, speculative, langchain.made / made),
        PathOverhead("session", bare, in_session, own.made / made),
    ]


def figures(measured: Sequence[PathOverhead]) -> dict[str, float]:
    """The overhead on the path that costs more, and the least share of turns that claimed."""
    return {
        "sdk_overhead_claimed_turn_ms_p50": max(each.added_ms for each in measured),
        "sdk_overhead_turns_claimed": min(each.claimed for each in measured),
    }


def table(measured: Sequence[PathOverhead]) -> Table:
    """One row a path."""
    return Table(
        title="CPU time of a turn with a claim",
        columns=("path", "plain ms", "speculative ms", "added ms", "turns claimed"),
        rows=tuple(
            (
                each.path,
                round(each.plain_ms, 3),
                round(each.speculative_ms, 3),
                round(each.added_ms, 3),
                round(each.claimed, 3),
            )
            for each in measured
        ),
    )


async def _cpu_ms(sides: Sequence[_Side], turns: int) -> list[float]:
    spent: list[list[float]] = [[] for _ in sides]
    gc.collect()
    gc.disable()
    try:
        for turn in range(_WARM + turns):
            for side, each in enumerate(sides):
                claims = each.claims.made if each.claims else 0
                began = time.process_time_ns()
                await each.run()
                for _ in range(_LOOP_STEPS):
                    await asyncio.sleep(0)
                ms = (time.process_time_ns() - began) / 1e6
                if turn >= _WARM and (each.claims is None or each.claims.made > claims):
                    spent[side].append(ms)
            if turn % _COLLECT_EVERY == 0:
                gc.collect()
    finally:
        gc.enable()
    return [statistics.median(each) for each in spent]


class _Claims:
    """Observer that counts claims."""

    def __init__(self) -> None:
        self.made = 0

    def on_event(self, event: SpeculationEvent) -> None:
        self.made += isinstance(event, CallClaimed)


class _Draft:
    """Drafts the call of every turn."""

    name = "always right"

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        yield ToolCall("find", {"q": "a"})


class _Find:
    """A tool, and how many of its runs have ended."""

    def __init__(self) -> None:
        self.ended = 0

        async def find(q: str) -> str:
            """Find something."""
            await asyncio.sleep(_TOOL_S)
            self.ended += 1
            return q

        self.run = find


async def _generate(speculated: _Find | None) -> None:
    """Take the model's time, and wait until the tool that is run speculatively meanwhile has ended.

    On an idle machine it ended before; on a busy one its claim must not be a matter of luck. The wait ends
    after ``_MOST_WAITS`` rounds of the event loop, so that a turn without a speculation shows as unclaimed.
    """
    ended = speculated.ended if speculated is not None else 0
    await asyncio.sleep(_MODEL_S)
    if speculated is not None:
        for _ in range(_MOST_WAITS):
            if speculated.ended > ended:
                return
            await asyncio.sleep(_WAIT_S)


class _Chat(BaseChatModel):
    """Chat model that calls ``find`` after a short wait, each time with a new id."""

    speculated: Any = None
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "short"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model bound to the names of the tools."""
        return self.bind(tools=[each.name for each in tools])

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this model is asynchronous")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        await _generate(self.speculated)
        self.asked += 1
        call = {
            "name": "find",
            "args": {"q": "a"},
            "id": f"call_{id(self)}_{self.asked}",
            "type": "tool_call",
        }
        message = AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def _speculative_langchain_turn(claims: _Claims) -> Turn:
    from agentrt.adapters.langchain import speculate

    find = _Find()
    model = speculate(_Chat(speculated=find), _Draft(), observers=[claims])
    return _langchain_turn(model, speculable(max_concurrency=64)(tool(find.run)))


def _langchain_turn(model: BaseChatModel, find: Any) -> Turn:
    history = [("user", "hi"), *[("assistant", "as I said"), ("user", "and then?")] * (_HISTORY // 2)]
    bound = model.bind_tools([find])

    async def turn() -> None:
        answer: Any = await bound.ainvoke(history)
        await find.ainvoke({**answer.tool_calls[0], "type": "tool_call"})

    return turn


def _plain_turn() -> Turn:
    find = _Find()

    async def turn() -> None:
        await _generate(None)
        await find.run("a")

    return turn


def _session_turn(session: SpeculationSession, find: _Find) -> Turn:
    history = [{"role": "user", "content": "and then?"}] * _HISTORY
    made = 0

    async def turn() -> None:
        nonlocal made
        made += 1
        with session.turn(history, []) as turn:
            await _generate(find)
            call = ToolCall("find", {"q": "a"}, f"call_{made}")
            turn.bind([call])
        await session.acall(call)

    return turn
