"""What of a conversation stays that is longer than the context, for any conversation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.request.window import Window, windows

Message = dict[str, Any]
Conversation = tuple[list[Message], list[int]]
"""Messages, and their sizes."""

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "?"}
ANSWER = {"role": "assistant", "content": "."}


def calling(*ids: str) -> list[Message]:
    """Return a message with these calls, and their outputs."""
    calls = [{"id": id, "function": {"name": "f", "arguments": {}}} for id in ids]
    outputs = [{"role": "tool", "tool_call_id": id, "content": "o"} for id in ids]
    return [{"role": "assistant", "content": "", "tool_calls": calls}, *outputs]


@st.composite
def conversations(draw: st.DrawFn, most: int = 60) -> Conversation:
    """Draw a conversation that ends with a prompt: a question, or the outputs of calls."""
    messages = [SYSTEM] * draw(st.integers(0, 2))
    turns = draw(st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=1, max_size=12))
    count = 0
    for turn, calls in enumerate(turns):
        messages.append(USER)
        for number in calls:
            messages += calling(*(f"call_{count + index}" for index in range(number)))
            count += number
        if turn < len(turns) - 1:
            messages.append(ANSWER)
    return messages, draw(st.lists(st.integers(1, most), min_size=len(messages), max_size=len(messages)))


def chosen(messages: Sequence[Message], sizes: Sequence[int], room: int) -> Window:
    """Return the first window that fits, or the last; where all of it fits, one that leaves nothing out."""
    whole = Window(0, 0, 0)
    for window in [whole, *windows(messages, sizes, room, room)]:
        if sum(window.of(sizes)) <= room:
            break
    return window


@given(conversations(), st.integers(1, 400))
def test_what_stays_is_whole(conversation: Conversation, room: int) -> None:
    messages, sizes = conversation
    numbered = list(enumerate(messages))
    found = list(windows(messages, sizes, room, room))
    assert found == list(windows(messages, sizes, room, room)), "it depends on nothing else"
    for window in found:
        kept = dict(window.of(numbered))
        assert len(messages) - 1 in kept, "what is to be answered"
        assert [at for at, each in numbered if each is SYSTEM] == [
            at for at in kept if messages[at] is SYSTEM
        ]
        for at, message in numbered:
            for call in message.get("tool_calls", ()):
                outputs = {of for of, each in numbered if each.get("tool_call_id") == call["id"]}
                assert outputs <= kept.keys() if at in kept else not outputs & kept.keys()
        begin = window.begin
        questions = [at for at in range(begin + 1) if messages[at] is USER]
        assert not questions or questions[-1] in kept, "the question of the turn that is cut"
    begins = [window.begin for window in found]
    assert begins == sorted(set(begins))
    assert all(sum(window.of(sizes)) <= room for window in found[:-1])


@given(conversations(), st.integers(1, 400))
def test_as_much_is_left_out_as_has_to_be(conversation: Conversation, room: int) -> None:
    messages, sizes = conversation
    window = chosen(messages, sizes, room)
    if sum(window.of(sizes)) > room:  # even the newest question or the newest outputs are too long
        newest = messages[max(window.begin, messages.count(SYSTEM)) :]
        assert USER not in newest[1:]
        assert sum("tool_calls" in each for each in newest) <= 1
    elif window.begin:
        instructions = sum(sizes[: window.instructions])
        half = max(1, (room - instructions) // 2)
        left_out = sum(sizes[window.instructions : window.begin])
        longest = max(size_of_parts(messages, sizes))
        needed = sum(sizes) - room
        assert left_out < needed + half + 2 * longest + max(sizes), "no more than half and a part too many"


def size_of_parts(messages: Sequence[Message], sizes: Sequence[int]) -> list[int]:
    """Return the sizes of the parts that are not divided: a message, or calls with their outputs."""
    parts: list[int] = []
    for message, size in zip(messages, sizes, strict=True):
        if message["role"] == "tool":
            parts[-1] += size
        else:
            parts.append(size)
    return parts


@given(conversations(), st.integers(1, 400))
def test_the_window_never_moves_back(conversation: Conversation, room: int) -> None:
    messages, sizes = conversation
    prompts = [at for at, each in enumerate(messages, 1) if each["role"] in ("user", "tool")]
    ends = [at for at in prompts if at == len(messages) or messages[at]["role"] != "tool"]
    begins = [chosen(messages[:end], sizes[:end], room).begin for end in ends]
    assert begins == sorted(begins)


@given(st.lists(st.integers(1, 20), min_size=20, max_size=200), st.integers(320, 1000))
def test_a_stream_is_cut_seldom(sizes: list[int], room: int) -> None:
    sizes = sizes[: len(sizes) // 2 * 2]
    messages = [SYSTEM, *([USER, ANSWER] * (len(sizes) // 2))]
    sizes = [10, *sizes]
    ends = range(2, len(messages) + 1, 2)
    begins = [chosen(messages[:end], sizes[:end], room).begin for end in ends]
    moves = sum(one != other for one, other in pairwise(begins))
    assert moves <= sum(sizes) // ((room - 10) // 2) + 1
    assert moves == 0 or moves < len(begins) / 4


@given(conversations(), st.integers(100, 400), st.integers(0, 50))
def test_the_window_is_one_of_the_same_for_longer_and_shorter_answers(
    conversation: Conversation, usual_room: int, more: int
) -> None:
    messages, sizes = conversation
    usual = set(windows(messages, sizes, usual_room, usual_room))
    assert usual <= set(windows(messages, sizes, usual_room + more, usual_room))


def test_outputs_far_behind_their_call_keep_it() -> None:
    call, output = calling("a")
    messages = [SYSTEM, USER, ANSWER, USER, call, USER, output, ANSWER, USER]
    found = list(windows(messages, [10] * 9, 50, 50))
    assert [window.begin for window in found] == [7, 8]
    assert not any(each in window.of(messages) for window in found for each in (call, output))


def test_a_long_turn_keeps_its_question_and_its_newest_calls() -> None:
    turn = [message for number in range(20) for message in calling(f"call_{number}")]
    messages = [SYSTEM, USER, ANSWER, USER, *turn]
    window = chosen(messages, [10] * len(messages), 120)
    kept = window.of(messages)
    assert kept[:2] == [SYSTEM, USER]
    assert kept[2:] == turn[-len(kept[2:]) :]
    assert 4 <= len(kept) <= 12
