"""Calls are dispatched when the main model has written their arguments, not when it has ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import DraftRequest, SpeculationSession, ToolCall, speculable
from agentrt.calls import (
    CallArgumentsDelta,
    CallFinished,
    CallStarted,
    ParserEvent,
    TextDelta,
    ToolCallFormat,
    tool_call_parser,
)
from agentrt.drafts import AnswerStream
from agentrt.speculators import Speculator, StreamSpeculator
from agentrt.testing import run_in_virtual_time

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(), json_values, max_size=3)


def seen_after_each(predictor: StreamSpeculator, events: Sequence[ParserEvent]) -> list[list[ToolCall]]:
    """What has been predicted by the time that each event has been read."""

    async def main() -> list[list[ToolCall]]:
        answer = AnswerStream()
        found: list[ToolCall] = []

        async def collect() -> None:
            async for call in predictor.drafts(DraftRequest([], [], answer=answer)):
                found.append(call)

        after = []
        async with anyio.create_task_group() as group:
            group.start_soon(collect)
            for event in events:
                answer.put(event)
                await anyio.sleep(1)
                after.append(list(found))
            answer.end()
        return after

    return run_in_virtual_time(main)


def test_a_call_is_dispatched_by_its_last_brace() -> None:
    events = [
        TextDelta("Let me look."),
        CallStarted(0, "look"),
        CallArgumentsDelta(0, '{"q": "a }\\" b'),
        CallArgumentsDelta(0, '", "n": {"x": [1]}'),
        CallArgumentsDelta(0, "}"),
        CallStarted(1, "list"),
        CallStarted(2, "look"),
        CallArgumentsDelta(2, '{"q": '),
    ]
    first = ToolCall("look", {"q": 'a }" b', "n": {"x": [1]}})
    predictor = StreamSpeculator()
    assert isinstance(predictor, Speculator)
    none, nothing = [[]] * 4, ToolCall("list", {})
    assert seen_after_each(predictor, events) == [*none, [first], [first], *[[first, nothing]] * 2]


@given(st.lists(st.tuples(st.text(min_size=1), arguments), max_size=4), st.data())
def test_every_call_is_found_once_however_the_answer_is_cut(
    calls: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    events: list[ParserEvent] = []
    for index, (name, given_arguments) in enumerate(calls):
        text = json.dumps(given_arguments, ensure_ascii=data.draw(st.booleans()))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        events.append(CallStarted(index, name))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        events += [CallArgumentsDelta(index, piece) for piece in pieces]
        events.append(CallFinished(index, ToolCall(name, given_arguments, f"id{index}")))
    found = seen_after_each(StreamSpeculator(), events)
    expected = [ToolCall(name, given_arguments) for name, given_arguments in calls]
    assert (found[-1] if found else []) == expected


@pytest.mark.parametrize(
    "garbage",
    ["}", "]", '"text"', "[1, 2]", '{"a": NaN}', '{"a" 1}', "{" * 10_000, "x" * (1 << 20) + "y"],
)
def test_garbage_is_no_call_and_no_error(garbage: str) -> None:
    events: list[ParserEvent] = [
        CallArgumentsDelta(5, "of a call that never began"),
        CallStarted(0, "look"),
        CallArgumentsDelta(0, garbage),
        CallStarted(1, "look"),
        CallArgumentsDelta(1, '{"q": 1}'),
    ]
    assert seen_after_each(StreamSpeculator(), events)[-1] == [ToolCall("look", {"q": 1})]


def test_calls_in_the_text_are_read_in_the_models_format() -> None:
    text = 'I look.<tool_call>{"name": "look", "arguments": {"q": "a"}}</tool_call> and more'
    events: list[ParserEvent] = [TextDelta(character) for character in text]
    hermes = seen_after_each(StreamSpeculator(format=ToolCallFormat.HERMES), events)
    assert hermes[text.index("}}") + 1] == [ToolCall("look", {"q": "a"})]
    assert hermes[-1] == [ToolCall("look", {"q": "a"})]
    assert seen_after_each(StreamSpeculator(), events)[-1] == []
    parsed = tool_call_parser(ToolCallFormat.HERMES)
    assert len(seen_after_each(StreamSpeculator(), parsed.feed(text))[-1]) == 1


def test_in_a_session_the_first_call_runs_while_the_second_is_written() -> None:
    began = asyncio.Event()

    @speculable
    async def look(q: str) -> str:
        began.set()
        return q

    async def main() -> None:
        async with SpeculationSession([look], [StreamSpeculator()]) as session:
            with session.turn([], []) as turn:
                turn.observe(CallStarted(0, "look"))
                turn.observe(CallArgumentsDelta(0, '{"q": "a"}'))
                await began.wait()
                turn.bind([ToolCall("look", {"q": "a"}, "id1"), ToolCall("look", {"q": "b"}, "id2")])
            assert await session.acall(ToolCall("look", {"q": "a"}, "id1")) == "a"
            assert (session.report().total.claims, session.report().total.wasted) == (1, 0)

    asyncio.run(main())
