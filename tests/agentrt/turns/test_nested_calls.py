"""Calls that tools make themselves are no calls of the model: they claim nothing of a turn that runs them."""

from __future__ import annotations

import threading

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.testing import ScriptedSpeculator
from tests.patience import PATIENCE_S


def test_a_wasted_speculation_takes_no_speculation_of_the_model() -> None:
    runs: list[str] = []
    ran, bound, nested = threading.Event(), threading.Event(), threading.Event()

    @speculable
    def inner(q: str) -> str:
        runs.append(q)
        ran.set()
        return f"found {q}"

    @speculable
    def outer(q: str) -> str:
        assert bound.wait(PATIENCE_S)
        result = inner(q)
        nested.set()
        return result

    made = ToolCall("inner", {"q": "a"})
    drafts = ScriptedSpeculator([ToolCall("outer", {"q": "a"}), made])
    with SpeculationSession([inner, outer], [drafts]) as session:
        with session.turn([], []) as turn:
            assert ran.wait(PATIENCE_S)
            turn.bind([made])
        bound.set()
        assert nested.wait(PATIENCE_S)
        assert runs == ["a", "a"]
        assert session.call(made) == "found a"
    assert runs == ["a", "a"]
    assert session.report().tools["inner"].claims == 1
