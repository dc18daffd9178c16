"""Read-your-writes: what was read before a write is not handed out after it."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools.writes import WriteLog
from tests.agentrt.loops import in_virtual_time
from tests.agentrt.turns.sessions import drafting

READ = ToolCall("list_notes", {}, "read")
WRITE = ToolCall("create_note", {"text": "b"}, "write")


def notes_and_reader() -> tuple[list[str], Any]:
    notes = ["a"]

    @speculable(invalidated_by=["create_note"])
    async def list_notes() -> list[str]:
        return list(notes)

    return notes, list_notes


def run(answer: list[ToolCall]) -> tuple[list[Any], str]:
    """Let the model answer with these calls, having drafted the read, and make them in order."""
    notes, list_notes = notes_and_reader()

    async def main() -> tuple[list[Any], str]:
        async with SpeculationSession([list_notes], drafting(READ)) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind(answer)
            results = []
            for call in answer:
                if call is WRITE:
                    notes.append("b")
                else:
                    results.append(await session.acall(call))
            return results, session.report().turns[0].calls[0].reason

    return run_in_virtual_time(main)


def test_a_read_after_a_write_of_the_same_answer_sees_the_write() -> None:
    assert run([WRITE, READ]) == ([["a", "b"]], "create_note was called meanwhile")


def test_without_a_write_the_speculated_result_is_used() -> None:
    assert run([READ]) == ([["a"]], "")


@in_virtual_time
async def test_a_result_that_waits_for_its_call_is_dropped_by_a_later_write_of_the_same_run_only() -> None:
    notes, list_notes = notes_and_reader()
    async with (
        SpeculationSession([list_notes], drafting(READ)) as session,
        SpeculationSession([list_notes], drafting(READ)) as other,
    ):
        for each in (session, other):
            with each.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([READ])
        with session.turn([], []) as turn:
            turn.bind([WRITE])
        notes.append("b")
        assert (await session.acall(READ), await other.acall(READ)) == (["a", "b"], ["a"])


@in_virtual_time
async def test_a_write_that_is_itself_speculable_counts_when_it_has_happened() -> None:
    notes, list_notes = notes_and_reader()

    @speculable(prepare=lambda text: text, commit=notes.append, discard=lambda text: None)
    def create_note(text: str) -> None:
        notes.append(text)

    async with SpeculationSession([list_notes, create_note], [ScriptedSpeculator([], [READ])]) as session:
        with session.turn([], []) as turn:
            turn.bind([WRITE])
        with session.turn([], []) as turn:  # beside the write, as parallel branches of an agent may
            await asyncio.sleep(1)
            await session.acall(WRITE)
            turn.bind([READ])
        result: list[str] = await session.acall(READ)
        assert result == ["a", "b"]


@given(
    history=st.lists(st.tuples(st.sampled_from("sr"), st.sampled_from("xyz")), max_size=30),
    bound=st.integers(1, 6),
)
def test_the_log_forgets_only_on_the_safe_side(history: list[tuple[str, str]], bound: int) -> None:
    log = WriteLog(max_entries=bound)
    log.watch("xyz")
    moments = [log.now()]
    for scope, tool in history:
        log.note(scope, tool)
        moments.append(log.now())
    for place, moment in enumerate(moments):
        for scope in "sr":
            for tool in "xyz":
                written = (scope, tool) in history[place:]
                if written:
                    assert log.written_since(moment, scope, [tool]) == tool
                elif bound == 6:
                    assert log.written_since(moment, scope, [tool]) is None
