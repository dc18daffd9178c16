"""Tools with an effect: prepared speculatively, committed by the real call, else discarded, each once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.errors import ConfigurationError
from agentrt.testing import ScriptedSpeculator
from agentrt.tools.runner import SpeculativeRuns
from agentrt.tools.speculable import speculable_tool
from agentrt.tools.speculation import Draft, Speculation
from tests.agentrt.loops import in_virtual_time
from tests.agentrt.turns.sessions import Driven, drafting, drive, now
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")

SEND = ToolCall("send_mail", {"to": "ann"}, "call_1")
OTHER = ToolCall("send_mail", {"to": "bob"}, "call_1")


class Outbox:
    """What happened to drafts of mails, in order."""

    def __init__(self, prepare_s: float = 1.0) -> None:
        self.log: list[str] = []
        self._prepare_s = prepare_s

    async def prepare(self, to: str) -> str:
        self.log.append(f"prepare {to}")
        await asyncio.sleep(self._prepare_s)
        return f"draft for {to}"

    async def commit(self, draft: str) -> str:
        self.log.append(f"send {draft}")
        return "sent"

    async def discard(self, draft: str) -> None:
        await asyncio.sleep(1)  # clean-up may wait, also while everything else is being cancelled
        self.log.append(f"delete {draft}")

    def tool(self, **options: Any) -> Any:
        @speculable(prepare=self.prepare, commit=self.commit, discard=self.discard, **options)
        async def send_mail(to: str) -> str:
            self.log.append(f"write and send to {to}")
            return "sent"

        return send_mail


def drive_outbox(outbox: Outbox, made: list[ToolCall], *, makes: bool = True, **options: Any) -> Driven:
    """Draft SEND, and let the model make these calls."""
    return drive(outbox.tool(**options), drafting(SEND), made, generation_s=5, makes=makes)


@pytest.mark.parametrize(
    ("made", "makes", "log"),
    [
        ([SEND], True, ["prepare ann", "send draft for ann"]),
        ([], True, ["prepare ann", "delete draft for ann"]),
        ([OTHER], True, ["prepare ann", "write and send to bob", "delete draft for ann"]),
        ([SEND], False, ["prepare ann", "delete draft for ann"]),
    ],
    ids=["committed", "unclaimed", "another call", "never made"],
)
def test_a_preparation_is_committed_by_its_call_or_discarded(
    made: list[ToolCall], makes: bool, log: list[str]
) -> None:
    outbox = Outbox()
    driven = drive_outbox(outbox, made, makes=makes)
    assert driven.results == ["sent"] * (len(made) * makes)
    assert driven.report.total.claims + driven.report.total.wasted == 1
    assert outbox.log == log


def test_a_preparation_under_way_is_cancelled_and_leaves_nothing_to_discard() -> None:
    outbox = Outbox(prepare_s=100)
    drive_outbox(outbox, [])
    assert outbox.log == ["prepare ann"]


def test_a_preparation_that_ends_in_spite_of_its_cancellation_is_discarded() -> None:
    outbox = Outbox()

    async def stubborn(to: str) -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "late draft"
        return ""

    outbox.prepare = stubborn  # type: ignore[method-assign]
    drive_outbox(outbox, [])
    assert outbox.log == ["delete late draft"]


@in_virtual_time
async def test_a_preparation_that_waits_too_long_for_its_call_is_discarded() -> None:
    outbox = Outbox()
    async with SpeculationSession([outbox.tool(ttl=10)], drafting(SEND)) as session:
        with session.turn([], []) as turn:
            await asyncio.sleep(5)
            turn.bind([SEND])
        await asyncio.sleep(20)  # a person thinks about it
        assert outbox.log == ["prepare ann", "delete draft for ann"]
        assert await session.acall(SEND) == "sent"
    assert session.report().total.wasted == 1
    assert outbox.log[2:] == ["write and send to ann"]


@in_virtual_time
async def test_what_is_prepared_is_discarded_when_its_event_loop_ends() -> None:
    outbox = Outbox()
    tool: Any = speculable_tool(outbox.tool(ttl=60))
    abandoned: list[str] = []
    runs = SpeculativeRuns(lambda tool, error: None, abandoned.append)
    speculation = Speculation(Draft("send_mail", "k"), ttl=60, needs_loop=True)
    assert tool.slots.acquire(blocking=False)
    runs.start(tool, tool.bind({"to": "ann"}), speculation)
    await speculation.over()
    await runs.stop()
    assert now() == 2
    assert (outbox.log, abandoned) == (["prepare ann", "delete draft for ann"], [])


def test_a_commit_that_fails_is_not_tried_again() -> None:
    outbox = Outbox()

    async def fail(draft: str) -> str:
        outbox.log.append("send")
        raise ConnectionError("after the mail had gone out, perhaps")

    outbox.commit = fail  # type: ignore[method-assign]
    with pytest.raises(ConnectionError, match="perhaps"):
        drive_outbox(outbox, [SEND])
    assert outbox.log == ["prepare ann", "send"]


def test_a_discard_that_fails_is_reported_and_harmless() -> None:
    outbox = Outbox()

    async def fail(draft: str) -> None:
        raise OSError("ann's password is swordfish")

    outbox.discard = fail  # type: ignore[method-assign]
    (problem,) = drive_outbox(outbox, []).report.turns[0].problems
    assert problem == "a preparation of send_mail could not be discarded: OSError"


def test_functions_prepare_commit_and_discard_in_threads() -> None:
    log: list[str] = []
    prepared, discarded = threading.Event(), threading.Event()

    def prepare(to: str) -> str:
        prepared.set()
        return f"draft for {to}"

    def discard(draft: str) -> None:
        log.append(f"delete {draft}")
        discarded.set()

    @speculable(prepare=prepare, commit=lambda draft: f"sent {draft}", discard=discard)
    def send_mail(to: str) -> str:
        return f"written and sent to {to}"

    drafts = ScriptedSpeculator([SEND], [SEND])
    with SpeculationSession([send_mail], [drafts]) as session:
        with session.turn([], []) as turn:
            assert prepared.wait(PATIENCE_S)
            turn.bind([SEND])
        assert session.call(SEND) == "sent draft for ann"
        prepared.clear()
        with session.turn([], []) as turn:
            assert prepared.wait(PATIENCE_S)
            turn.bind([OTHER])
        assert session.call(OTHER) == "written and sent to bob"
        assert discarded.wait(PATIENCE_S)
    assert log == ["delete draft for ann"]


def test_a_preparation_that_ends_after_it_was_dropped_is_discarded_in_its_thread() -> None:
    started, release, discarded = threading.Event(), threading.Event(), threading.Event()

    def prepare(to: str) -> str:
        started.set()
        release.wait()
        return "draft"

    @speculable(prepare=prepare, commit=str, discard=lambda draft: discarded.set())
    def send_mail(to: str) -> str:
        return "sent"

    with SpeculationSession([send_mail], drafting(SEND)) as session:
        with session.turn([], []) as turn:
            assert started.wait(PATIENCE_S)
            turn.bind([])
        assert not discarded.is_set()
        release.set()
        assert discarded.wait(PATIENCE_S)


def test_the_three_belong_together_and_are_of_one_kind() -> None:
    async def acommit(draft: str) -> None: ...

    with pytest.raises(ConfigurationError, match="belong together"):
        speculable(prepare=str, commit=str)(lambda: None)
    with pytest.raises(ConfigurationError, match="all be coroutine functions, or none"):
        speculable(prepare=str, commit=acommit, discard=str)(lambda: None)
