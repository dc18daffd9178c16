"""Reading an answer along while it is written; which predictors may be given."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import SpeculationSession, ToolCall
from agentrt.calls import TextDelta
from agentrt.drafts import AnswerStream, DraftRequest, drafts_of, predictors_of
from agentrt.errors import ConfigurationError
from agentrt.reports import SpeculationReport
from agentrt.speculators import EnsembleSpeculator
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.agentrt.turns.sessions import call, one_turn, slow_tool
from tests.patience import PATIENCE_S


async def read(answer: AnswerStream) -> list[str]:
    return [event.text async for event in answer.events() if isinstance(event, TextDelta)]


@given(written=st.lists(st.integers(0, 3)), joins=st.lists(st.integers(0, 12), max_size=3))
def test_every_reader_gets_every_event_in_order_whenever_it_joins(
    written: list[int], joins: list[int]
) -> None:
    async def main() -> None:
        answer = AnswerStream()
        got: list[list[str]] = []

        async def join(after_s: int) -> None:
            await anyio.sleep(after_s)
            got.append(await read(answer))

        async with anyio.create_task_group() as group:
            for after_s in joins:
                group.start_soon(join, after_s)
            for number, pause in enumerate(written):
                answer.put(TextDelta(str(number)))
                await anyio.sleep(pause)
            answer.end()
        assert got == [[str(number) for number in range(len(written))]] * len(joins)

    run_in_virtual_time(main)


def test_a_reader_is_woken_from_another_thread() -> None:
    answer = AnswerStream()
    began = threading.Event()

    def write() -> None:
        assert began.wait(PATIENCE_S)
        answer.put(TextDelta("from a thread"))
        answer.end()

    async def main() -> list[str]:
        asyncio.get_running_loop().call_soon(began.set)
        return await read(answer)

    thread = threading.Thread(target=write)
    thread.start()
    assert asyncio.run(main()) == ["from a thread"]
    thread.join()


def test_what_comes_after_the_end_is_not_part_of_the_answer() -> None:
    answer = AnswerStream()
    answer.end()
    answer.put(TextDelta("late"))
    assert asyncio.run(read(answer)) == []


def test_one_predictor_is_given_like_several() -> None:
    predictor = ScriptedSpeculator()
    assert predictors_of(predictor) == (predictor,)
    assert predictors_of([predictor, predictor]) == predictors_of(iter([predictor] * 2)) == (predictor,) * 2
    assert predictors_of([]) == ()
    assert predictors_of(["mine", predictor], others=(str,)) == ("mine", predictor)


@pytest.mark.parametrize(
    "given", ["x", "", None, [None], ScriptedSpeculator, [ScriptedSpeculator], [[]], object()]
)
def test_what_is_no_predictor_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match=r"predictors: .* Give a predictor"):
        predictors_of(given)


class Generator:
    def drafts(self, request: DraftRequest) -> Iterator[ToolCall]:
        yield ToolCall("look", {})


class Coroutine:
    async def drafts(self, request: DraftRequest) -> list[ToolCall]:
        return [ToolCall("look", {})]


class Listed:
    name = "open order"

    def drafts(self, request: DraftRequest) -> list[ToolCall]:
        return [ToolCall("look", {})]


class Awaitable:
    def drafts(self, request: DraftRequest) -> Any:
        return Coroutine().drafts(request)


class Delegating:
    def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        return ScriptedSpeculator([ToolCall("look", {})]).drafts(request)


WRITE_IT = r"Write 'async def drafts\(self, request\):' with 'yield ToolCall\(…\)'"


@pytest.mark.parametrize(
    ("predictor", "problem"), [(Generator(), "a generator"), (Coroutine(), "a coroutine")]
)
def test_drafts_that_can_never_be_iterated_are_refused_at_once(predictor: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{problem}.*{WRITE_IT}"):
        predictors_of(predictor)
    with pytest.raises(ConfigurationError, match=problem):
        EnsembleSpeculator([predictor])


@pytest.mark.parametrize("predictor", [Listed(), Awaitable(), EnsembleSpeculator([Listed()])])
def test_drafts_that_turn_out_to_be_no_iterator_are_reported(
    predictor: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> SpeculationReport:
        async with SpeculationSession([slow_tool(1, [])], [predictor]) as session:
            assert (await one_turn(session, 1, call("a")))[0] == "found a"
        return session.report()

    report = run_in_virtual_time(main)
    assert report.turns[0].problems[0].endswith("failed: ConfigurationError")
    (logged,) = {record.getMessage() for record in caplog.records if record.levelname == "WARNING"}
    assert re.search(WRITE_IT, logged)
    assert ("of open order returns an object of type list" in logged) or isinstance(predictor, Awaitable)


def test_a_method_that_returns_the_drafts_of_another_predictor() -> None:
    async def main() -> list[ToolCall]:
        (predictor,) = predictors_of(Delegating())
        return [draft async for draft in drafts_of(predictor, DraftRequest([], []))]

    assert [draft.name for draft in run_in_virtual_time(main)] == ["look"]
