from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.serving.gateway import sse
from agentrt.runtime.serving.gateway.separation import noting_event_id
from agentrt.runtime.serving.gateway.sse import UnreadableEventError, event_data, split_events, whole_turn
from agentrt.runtime.serving.gateway.upstream import _EngineStream

FINISHED = b'data: {"choices": [{"finish_reason": "stop"}]}\n\n'


async def pieces_of(body: bytes, cuts: list[int]) -> AsyncGenerator[bytes, None]:
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    for start, end in itertools.pairwise(places):
        yield body[start:end]


def read(body: bytes, cuts: list[int]) -> list[bytes]:
    async def main() -> list[bytes]:
        return [event async for event in split_events(pieces_of(body, cuts))]

    return asyncio.run(main())


data = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), max_size=20)


@given(
    st.lists(st.tuples(data, st.sampled_from(["\n", "\r\n", "\r"])), max_size=5),
    st.lists(st.integers(0, 300), max_size=8),
)
def test_events_are_the_same_however_they_are_cut(sent: list[tuple[str, str]], cuts: list[int]) -> None:
    bodies = [f"event: x{end}data: {text}{end}{end}".encode() for text, end in sent]
    found = read(b"".join(bodies) + b"data: unfinished", cuts)
    assert b"".join(found) == b"".join(bodies)
    assert [event_data(event).decode() for event in found if event_data(event)] == [
        text for text, _ in sent if text
    ]


@given(
    st.lists(
        st.sampled_from([b"\n", b"\r", b"\r\n", b"data:", b"data: {", b":", b"\x00", b"\xff"]) | st.binary()
    ),
    st.lists(st.integers(0, 300), max_size=8),
)
def test_any_bytes_are_events_and_a_rest(parts: list[bytes], cuts: list[int]) -> None:
    body = b"".join(parts)
    found = read(body, cuts)
    assert b"".join(found) == body[: sum(map(len, found))]
    assert all(event.endswith((b"\n\n", b"\r\r", b"\r\n\r\n")) for event in found)
    assert all(b"data:" in event for event in found if event_data(event))


def test_data_in_lines_and_comments() -> None:
    assert event_data(b"data: a\ndata:b\n\n") == b"a\nb"
    assert event_data(b": ping\n\n") == b""
    with pytest.raises(UnreadableEventError):
        event_data(b"data:\n" * 20_000)


def test_an_event_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_MAX_EVENT_BYTES", 100)
    with pytest.raises(UnreadableEventError):
        read(b"data: " + b"x" * 200, [50])


def turns_of(read: AsyncIterator[bytes]) -> tuple[int, int]:
    """The most items of ``read`` that come before another task runs, and how often that runs meanwhile."""

    async def main() -> tuple[int, int]:
        turn = 0

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        items = Counter([turn async for _ in read])
        counting.cancel()
        return max(items.values()), turn

    return asyncio.run(main())


async def note(id: str) -> None:
    """Note nothing."""


@pytest.mark.parametrize("read", [split_events, whole_turn], ids=["read", "relayed"])
@pytest.mark.parametrize(
    "bytes_sent", [b"\n", b"\r", b":\n\n", b"data: {}\n\n", b"data:" + b"x" * 900 + b"\n\n"]
)
def test_other_tasks_run_between_the_events_of_one_piece(read: Any, bytes_sent: bytes) -> None:
    body = FINISHED + bytes_sent * (100_000 // len(bytes_sent))
    assert turns_of(read(pieces_of(body, [])))[0] <= 17


def test_other_tasks_run_between_the_chunks_of_an_answer() -> None:
    pieces = _EngineStream(pieces_of(bytes(10_000), list(range(10_000))), None)
    assert turns_of(aiter(pieces))[0] <= 17


def test_other_tasks_run_while_an_id_is_looked_for() -> None:
    body = b"\n" * 100_000 + b'data: {"response": {"id": "r"}}\n\n'
    assert turns_of(noting_event_id(pieces_of(body, []), note))[1] > 3000
