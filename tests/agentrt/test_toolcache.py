from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest

from agentrt import ToolCall, speculable
from agentrt.testing import ScriptedSpeculator
from agentrt.toolcache import FinishedCall, TakeResult, current_result_source, offering_results, result_text
from agentrt.turns.session import SpeculationSession
from tests.agentrt.loops import on_a_loop

ROME = ToolCall("find", {"query": "rome"}, "call_1")


class NoSource:
    def take_results(self, take: TakeResult) -> None:
        raise AssertionError

    def answered(self, calls: Sequence[tuple[ToolCall, str]]) -> None:
        raise AssertionError


def test_a_source_is_offered_within_its_block() -> None:
    assert current_result_source() is None
    outer = NoSource()
    with offering_results(outer):
        assert current_result_source() is outer
        with offering_results(None):
            assert current_result_source() is None
        assert current_result_source() is outer
    assert current_result_source() is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ({"č": [1, None]}, '{"č": [1, null]}'),
        (3, "3"),
        (math.nan, None),
        (object(), None),
        ({1, 2}, None),
    ],
)
def test_results_as_text(value: Any, text: str | None) -> None:
    assert result_text(value) == text


@on_a_loop
async def test_a_turn_hands_out_its_results_and_counts_them_as_claimed() -> None:
    @speculable(ttl=7)
    async def find(query: str) -> str:
        if query == "fails":
            raise ValueError
        return query.upper()

    events: list[tuple[str, Any]] = []
    done = asyncio.Event()

    def take(result: FinishedCall) -> None:
        assert 0 < result.keep_alive_s <= 7
        events.append((result.call.arguments["query"], result.text))
        if len(events) == 2:
            done.set()

    drafts = [ToolCall("find", {"query": query}) for query in ("fails", "rome", "oslo")]
    async with SpeculationSession([find], [ScriptedSpeculator(drafts)]) as session:
        with session.turn([{"role": "user", "content": "?"}], []) as turn:
            turn.on_finished(take)
            await done.wait()
            assert sorted(events) == [("oslo", "OSLO"), ("rome", "ROME")]
            late: list[Any] = []
            turn.on_finished(lambda result: late.append(result.text))
            assert sorted(late) == ["OSLO", "ROME"]
            turn.bind_answered([ROME])
        total = session.report().total
        assert (total.claims, total.misses, total.wasted) == (1, 0, 2)
        # The call was answered: making it again would be another call.
        assert await session.acall(ROME) == "ROME"
        assert session.report().total.claims == 1
