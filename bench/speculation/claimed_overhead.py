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
from agentrt.tools.speculable import speculable
from agentrt.turns.session import SpeculationSession

from ..common.process import SideProcess
from ..common.report import Table

_MODEL_S = 0.008  # long enough for the draft to come and its tool to run
_TOOL_S = 0.006  # quicker tools are not worth running speculatively
_HISTORY = 20  # messages that each request brings along
_WARM = 30
_COLLECT_EVERY = 50  # turns
_LOOP_STEPS = 8  # until the tasks of a turn have ended
METHOD = (
    f"sdk_overhead_claimed_turn_ms_p50: CPU time of the process in a turn whose one call claims its "
    f"speculation, less that of the same turn without speculation, median of the turns, on the path that "
    f"costs more; the model awaits {1000 * _MODEL_S:g} ms, the tool {1000 * _TOOL_S:g} ms, the history has "
    f"{_HISTORY} messages, the sides are interleaved, and garbage is collected between turns."
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
    with SideProcess(_Side) as side:
        measured: list[PathOverhead] = side.call("measure", turns)
        return measured


class _Side:
    def measure(self, turns: int) -> list[PathOverhead]:
        return asyncio.run(_measure(turns))


async def _measure(turns: int) -> list[PathOverhead]:
    look, chat = _look.model_copy(update={"name": "look"}), _Chat()
    early, fast = _langchain(chat, look)
    async with SpeculationSession([_find], [_Draft("find")]) as session:
        sides: list[Turn] = [
            _langchain_turn(chat.bind_tools([look]), look),
            _langchain_turn(fast.bind_tools([early]), early),
            _plain_turn,
            _session_turn(session),
        ]
        plain, langchain, bare, own = await _cpu_ms(sides, turns)
        made = turns + _WARM
        return [
            PathOverhead("LangChain", plain, langchain, _claims(fast) / made),
            PathOverhead("session", bare, own, session.report().total.claims / made),
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


async def _cpu_ms(sides: Sequence[Turn], turns: int) -> list[float]:
    spent: list[list[float]] = [[] for _ in sides]
    gc.collect()
    gc.disable()
    try:
        for turn in range(_WARM + turns):
            for side, run in enumerate(sides):
                began = time.process_time_ns()
                await run()
                for _ in range(_LOOP_STEPS):
                    await asyncio.sleep(0)
                if turn >= _WARM:
                    spent[side].append((time.process_time_ns() - began) / 1e6)
            if turn % _COLLECT_EVERY == 0:
                gc.collect()
    finally:
        gc.enable()
    return [statistics.median(each) for each in spent]


class _Draft:
    """Drafts the call of every turn."""

    name = "always right"

    def __init__(self, called: str) -> None:
        self._tool = called

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        yield ToolCall(self._tool, {"q": "a"})


class _Chat(BaseChatModel):
    """Chat model that calls ``look`` after a short wait, each time with a new id."""

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
        await asyncio.sleep(_MODEL_S)
        self.asked += 1
        call = {
            "name": "look",
            "args": {"q": "a"},
            "id": f"call_{id(self)}_{self.asked}",
            "type": "tool_call",
        }
        message = AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
async def _look(q: str) -> str:
    """Look something up."""
    await asyncio.sleep(_TOOL_S)
    return q


async def find(q: str) -> str:
    """Find something."""
    await asyncio.sleep(_TOOL_S)
    return q


_find = speculable(max_concurrency=64)(find)


def _langchain(chat: _Chat, look: Any) -> tuple[Any, Any]:
    """Return the speculable tool and the speculating model."""
    from agentrt.adapters.langchain import speculate

    return speculable(max_concurrency=64)(look), speculate(chat.model_copy(), _Draft("look"))


def _claims(model: Any) -> int:
    from agentrt.adapters.langchain import report_of

    return report_of(model).total.claims


def _langchain_turn(model: Any, look: Any) -> Turn:
    history = [("user", "hi"), *[("assistant", "as I said"), ("user", "and then?")] * (_HISTORY // 2)]

    async def turn() -> None:
        answer = await model.ainvoke(history)
        await look.ainvoke({**answer.tool_calls[0], "type": "tool_call"})

    return turn


async def _plain_turn() -> None:
    await asyncio.sleep(_MODEL_S)
    await find("a")


def _session_turn(session: SpeculationSession) -> Turn:
    history = [{"role": "user", "content": "and then?"}] * _HISTORY
    made = 0

    async def turn() -> None:
        nonlocal made
        made += 1
        with session.turn(history, []) as turn:
            await asyncio.sleep(_MODEL_S)
            call = ToolCall("find", {"q": "a"}, f"call_{made}")
            turn.bind([call])
        await session.acall(call)

    return turn
