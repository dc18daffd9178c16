"""Reading an answer along while it is written; which predictors may be given."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.calls import TextDelta
from agentrt.drafts import AnswerStream, predictors_of
from agentrt.errors import ConfigurationError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time


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
        assert began.wait(20)
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
