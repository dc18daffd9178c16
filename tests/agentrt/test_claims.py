"""Tickets: found by id, honoured only for the same call, never ambiguous, bounded, and expiring."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrt.claims import ClaimTable, Ticket, aredeem, redeem
from agentrt.futures import Speculation


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def claimed(self, speculation: Speculation, *, tool_s: float, waited_s: float) -> None:
        self.notes.append(("claimed", speculation.tool))

    def missed(self, tool: str, *, tool_s: float, reason: str, draft_s: float | None = None) -> None:
        self.notes.append(("missed", reason))

    def wasted(self, speculation: Speculation, reason: str) -> None:
        self.notes.append(("wasted", speculation.lost_because or reason))


def run_of(key: str = "k", *, needs_loop: bool = False) -> Speculation:
    return Speculation("tool", key, ttl=60.0, needs_loop=needs_loop)


def table(ticket: Ticket) -> ClaimTable:
    claims = ClaimTable(ttl=60.0)
    claims.leave("id", ticket)
    return claims


def key(text: str = "k") -> Callable[[], str]:
    return lambda: text


def real() -> str:
    return "real"


async def areal() -> str:
    return "real"


def test_the_right_call_gets_its_speculation_once() -> None:
    recorder, speculation = Recorder(), run_of()
    speculation.finish("early")
    claims = table(Ticket("k", speculation, recorder))
    assert redeem(claims, "tool", "id", key(), real) == "early"
    assert redeem(claims, "tool", "id", key(), real) == "real"
    assert recorder.notes == [("claimed", "tool")]


def test_a_call_without_a_ticket_runs_and_is_not_recorded() -> None:
    claims = ClaimTable(ttl=60.0)
    assert redeem(claims, "tool", "other", key(), real) == "real"
    assert redeem(claims, "tool", None, key(), real) == "real"


def test_edited_arguments_run_for_real_and_the_speculation_is_cancelled() -> None:
    recorder, speculation = Recorder(), run_of()
    claims = table(Ticket("k", speculation, recorder))
    assert redeem(claims, "tool", "id", key("edited"), real) == "real"
    assert speculation.done
    assert recorder.notes == [
        ("wasted", "the arguments were edited"),
        ("missed", "the arguments were edited"),
    ]


def test_a_key_that_cannot_be_made_matches_nothing() -> None:
    def fail() -> str:
        raise RuntimeError

    claims = table(Ticket("k", run_of(), Recorder()))
    assert redeem(claims, "tool", "id", fail, real) == "real"


def test_a_failed_speculation_is_a_miss_and_the_real_error_is_the_users() -> None:
    recorder, speculation = Recorder(), run_of()
    speculation.fail(OSError("early"))
    claims = table(Ticket("k", speculation, recorder))

    def fail() -> str:
        raise ValueError("real")

    with pytest.raises(ValueError, match="real"):
        redeem(claims, "tool", "id", key(), fail)
    assert recorder.notes[-1] == ("missed", "the early run failed with OSError")


def test_an_unfinished_run_is_waited_for_in_a_thread() -> None:
    speculation = run_of()
    claims = table(Ticket("k", speculation, Recorder()))
    results: list[Any] = []
    asking = threading.Thread(target=lambda: results.append(redeem(claims, "tool", "id", key(), real)))
    asking.start()
    speculation.finish("early")
    asking.join()
    assert results == ["early"]


def test_an_event_loop_is_never_blocked() -> None:
    async def main() -> list[str]:
        unfinished, finished = run_of(), run_of()
        finished.finish("early")
        answers = []
        for speculation in (unfinished, finished):
            claims = table(Ticket("k", speculation, Recorder()))
            answers.append(redeem(claims, "tool", "id", key(), real))
        assert unfinished.done  # nobody can claim it any more
        return answers

    assert asyncio.run(main()) == ["real", "early"]


def test_a_thread_never_waits_for_a_run_on_an_event_loop() -> None:
    speculation = run_of(needs_loop=True)
    assert redeem(table(Ticket("k", speculation, Recorder())), "tool", "id", key(), real) == "real"
    done = run_of(needs_loop=True)
    done.finish("early")
    assert redeem(table(Ticket("k", done, Recorder())), "tool", "id", key(), real) == "early"


def test_a_coroutine_awaits_an_unfinished_run() -> None:
    async def main() -> str:
        speculation = run_of(needs_loop=True)
        claims = table(Ticket("k", speculation, Recorder()))
        asking = asyncio.create_task(aredeem(claims, "tool", "id", key(), areal))
        await asyncio.sleep(0)
        speculation.finish("early")
        return await asking

    assert asyncio.run(main()) == "early"


def test_a_run_cancelled_while_awaited_is_a_miss() -> None:
    async def main() -> str:
        speculation = run_of()
        asking = asyncio.create_task(
            aredeem(table(Ticket("k", speculation, Recorder())), "tool", "id", key(), areal)
        )
        await asyncio.sleep(0)
        speculation.cancel("its event loop ended")
        return await asking

    assert asyncio.run(main()) == "real"


class TableMachine(RuleBasedStateMachine):
    """Random use of a table against what it promises."""

    BOUND, TTL = 3, 10.0
    ids = st.sampled_from(["a", "b", "c", "d", "e"])

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.claims = ClaimTable(ttl=self.TTL, max_tickets=self.BOUND, clock=lambda: self.now)
        self.open: dict[str, tuple[float, Ticket | None]] = {}
        self.left: list[Ticket] = []

    def sweep(self) -> None:
        self.open = {name: held for name, held in self.open.items() if self.now - held[0] <= self.TTL}

    @rule(name=ids)
    def leave(self, name: str) -> None:
        ticket = Ticket("k", run_of(), Recorder())
        self.left.append(ticket)
        self.sweep()
        ambiguous = name in self.open
        self.open.pop(name, None)
        self.open[name] = (self.now, None if ambiguous else ticket)
        while len(self.open) > self.BOUND:
            del self.open[next(iter(self.open))]
        self.claims.leave(name, ticket)

    @rule(name=ids)
    def take(self, name: str) -> None:
        self.sweep()
        taken = self.claims.take(name)
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
            held = [ticket for _, ticket in self.open.values()]
            for ticket in self.left:
                assert ticket.speculation is not None
                assert ticket in held or ticket.speculation.done


TestTable = TableMachine.TestCase
