"""Pending claims: found by id, honoured only for the same call, never ambiguous, bounded, and expiring."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrt.tools.claims import ClaimTable, PendingClaim, aclaim, claim
from agentrt.tools.speculation import Draft, Speculation


class Recorder:
    """Keeps the notes in order."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def claimed(self, speculation: Speculation, *, tool_s: float, waited_s: float) -> None:
        self.notes.append(("claimed", speculation.draft.tool))

    def missed(self, tool: str, *, tool_s: float, reason: str, draft_s: float | None = None) -> None:
        self.notes.append(("missed", reason))


def run_of(key: str = "k", *, needs_loop: bool = False, recorder: Recorder | None = None) -> Speculation:
    def note(speculation: Speculation, reason: str) -> None:
        if recorder is not None:
            recorder.notes.append(("wasted", reason))

    return Speculation(Draft("tool", key), ttl=60.0, needs_loop=needs_loop, on_wasted=note)


def key(text: str = "k") -> Callable[[], str]:
    return lambda: text


def real() -> str:
    return "real"


async def areal() -> str:
    return "real"


def test_the_right_call_gets_its_speculation_once() -> None:
    recorder = Recorder()
    speculation = run_of(recorder=recorder)
    speculation.finish("early")
    pending = PendingClaim("k", speculation, recorder)
    assert claim(pending, "tool", key(), real) == "early"
    assert claim(pending, "tool", key(), real) == "real"
    assert [what for what, _ in recorder.notes] == ["claimed", "missed"]


def test_a_call_without_a_pending_claim_runs_and_is_not_recorded() -> None:
    assert claim(None, "tool", key(), real) == "real"


def test_edited_arguments_run_for_real_and_the_speculation_is_cancelled() -> None:
    recorder = Recorder()
    speculation = run_of(recorder=recorder)
    pending = PendingClaim("k", speculation, recorder)
    assert claim(pending, "tool", key("edited"), real) == "real"
    assert speculation.done
    assert recorder.notes == [
        ("wasted", "the arguments were edited"),
        ("missed", "the arguments were edited"),
    ]


def test_a_key_that_cannot_be_made_matches_nothing() -> None:
    def fail() -> str:
        raise RuntimeError

    pending = PendingClaim("k", run_of(), Recorder())
    assert claim(pending, "tool", fail, real) == "real"


def test_a_failed_speculation_is_a_miss_and_the_real_error_is_the_users() -> None:
    recorder, speculation = Recorder(), run_of()
    speculation.fail(OSError("early"))
    pending = PendingClaim("k", speculation, recorder)

    def fail() -> str:
        raise ValueError("real")

    with pytest.raises(ValueError, match="real"):
        claim(pending, "tool", key(), fail)
    assert recorder.notes[-1] == ("missed", "the speculation failed with OSError")


def test_an_unfinished_run_is_waited_for_in_a_thread() -> None:
    speculation = run_of()
    pending = PendingClaim("k", speculation, Recorder())
    results: list[Any] = []
    claiming = threading.Thread(target=lambda: results.append(claim(pending, "tool", key(), real)))
    claiming.start()
    speculation.finish("early")
    claiming.join()
    assert results == ["early"]


def test_an_event_loop_is_never_blocked() -> None:
    async def main() -> list[str]:
        unfinished, finished = run_of(), run_of()
        finished.finish("early")
        answers = []
        for speculation in (unfinished, finished):
            pending = PendingClaim("k", speculation, Recorder())
            answers.append(claim(pending, "tool", key(), real))
        assert unfinished.done  # it can no longer be claimed
        return answers

    assert asyncio.run(main()) == ["real", "early"]


def test_a_thread_never_waits_for_a_run_on_an_event_loop() -> None:
    speculation = run_of(needs_loop=True)
    assert claim(PendingClaim("k", speculation, Recorder()), "tool", key(), real) == "real"
    done = run_of(needs_loop=True)
    done.finish("early")
    assert claim(PendingClaim("k", done, Recorder()), "tool", key(), real) == "early"


def test_a_coroutine_awaits_an_unfinished_run() -> None:
    async def main() -> str:
        speculation = run_of(needs_loop=True)
        pending = PendingClaim("k", speculation, Recorder())
        claiming = asyncio.create_task(aclaim(pending, "tool", key(), areal))
        await asyncio.sleep(0)
        speculation.finish("early")
        return await claiming

    assert asyncio.run(main()) == "early"


def test_a_run_cancelled_while_awaited_is_a_miss() -> None:
    async def main() -> str:
        speculation = run_of()
        pending = PendingClaim("k", speculation, Recorder())
        claiming = asyncio.create_task(aclaim(pending, "tool", key(), areal))
        await asyncio.sleep(0)
        speculation.cancel("its event loop ended")
        return await claiming

    assert asyncio.run(main()) == "real"


def test_a_result_from_before_a_write_is_not_waited_for() -> None:
    recorder = Recorder()
    running = Speculation(Draft("tool", "k"), ttl=60.0, outdated=lambda: "save was called meanwhile")
    assert claim(PendingClaim("k", running, recorder), "tool", key(), real) == "real"
    assert recorder.notes == [("missed", "save was called meanwhile")]


def test_what_was_prepared_is_completed_once_and_its_error_is_the_calls() -> None:
    prepared = run_of()
    prepared.finish("draft")
    pending = PendingClaim("k", prepared, Recorder())

    def commit(value: str) -> str:
        raise OSError(f"could not send {value}")

    with pytest.raises(OSError, match="could not send draft"):
        claim(pending, "tool", key(), real, commit)

    async def acommit(value: str) -> str:
        return f"sent {value}"

    again = run_of()
    again.finish("draft")
    completing = aclaim(PendingClaim("k", again, Recorder()), "tool", key(), areal, acommit)
    assert asyncio.run(completing) == "sent draft"


def test_equal_ids_of_different_runs_do_not_meet() -> None:
    claims = ClaimTable(ttl=60.0)
    ann, bob = (PendingClaim("k", run_of(), Recorder()) for _ in range(2))
    claims.add("call_0", ann, "ann")
    claims.add("call_0", bob, "bob")
    assert claims.take("call_0") is None
    assert claims.take("call_0", "eve") is None
    assert claims.take("call_0", "ann") is ann
    assert claims.take("call_0", "bob") is bob


def test_without_a_scope_an_id_is_honoured_once_even_after_it_expired() -> None:
    now = [0.0]
    claims = ClaimTable(ttl=10.0, clock=lambda: now[0])
    claims.add("call_0", PendingClaim("k", run_of(), Recorder()))
    now[0] = 11.0  # ann's call never came in time, and bob's model writes the same id
    claims.add("call_0", PendingClaim("k", run_of(), Recorder()))
    taken = claims.take("call_0")
    assert taken is not None
    assert (taken.speculation, taken.reason) == (None, "its call id was issued twice")


class TableMachine(RuleBasedStateMachine):
    """Random use of a table against what it promises."""

    BOUND, TTL = 3, 10.0
    names = st.tuples(st.sampled_from([None, "ann"]), st.sampled_from(["a", "b", "c"]))

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.claims = ClaimTable(ttl=self.TTL, max_pending=self.BOUND, clock=lambda: self.now)
        self.open: dict[tuple[str | None, str], tuple[float, PendingClaim | None]] = {}
        self.issued: set[str] = set()
        self.left: list[PendingClaim] = []

    def sweep(self) -> None:
        self.open = {name: held for name, held in self.open.items() if self.now - held[0] <= self.TTL}

    @rule(name=names)
    def leave(self, name: tuple[str | None, str]) -> None:
        scope, call_id = name
        pending = PendingClaim("k", run_of(), Recorder())
        self.left.append(pending)
        self.sweep()
        ambiguous = name in self.open or (scope is None and call_id in self.issued)
        if scope is None:
            self.issued.add(call_id)
        self.open.pop(name, None)
        self.open[name] = (self.now, None if ambiguous else pending)
        while len(self.open) > self.BOUND:
            del self.open[next(iter(self.open))]
        self.claims.add(call_id, pending, scope)

    @rule(name=names)
    def take(self, name: tuple[str | None, str]) -> None:
        self.sweep()
        taken = self.claims.take(name[1], name[0])
        held = self.open.pop(name, None)
        if held is None:
            assert taken is None
        elif held[1] is None:
            assert taken is not None
            assert taken.speculation is None
        else:
            assert taken is held[1]
            assert taken.speculation is not None
            assert not taken.speculation.done
            taken.speculation.finish("claimed")

    @rule(seconds=st.floats(0, 8))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def what_was_dropped_was_cancelled(self) -> None:
        assert len(self.claims) <= self.BOUND
        if len(self.claims) == len(self.open):  # swept as far as the model is
            held = [pending for _, pending in self.open.values()]
            for pending in self.left:
                assert pending.speculation is not None
                assert pending in held or pending.speculation.done


TestTable = TableMachine.TestCase
