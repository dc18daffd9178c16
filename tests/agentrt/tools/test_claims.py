"""Claims: honoured only for the same call, once, and never by blocking an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from agentrt.tools.claims import PendingClaim, aclaim, claim
from agentrt.tools.speculation import Draft, Speculation
from tests.agentrt.loops import on_a_loop


class Recorder:
    """Keeps the notes in order."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def calling(
        self, tool: str, call_id: str | None, speculation: Speculation | None
    ) -> AbstractContextManager[None]:
        return nullcontext()

    def claimed(self, speculation: Speculation, *, tool_s: float, waited_s: float) -> None:
        self.notes.append(("claimed", speculation.draft.tool))

    def missed(self, tool: str, *, tool_s: float, reason: str, draft_s: float | None = None) -> None:
        self.notes.append(("missed", reason))

    def unclaimed(self, speculation: Speculation, reason: str, *, called: bool, made: bool) -> None:
        self.notes.append(("unclaimed", reason))


def run_of(key: str = "k", *, needs_loop: bool = False, recorder: Recorder | None = None) -> Speculation:
    def note(speculation: Speculation, reason: str) -> None:
        if recorder is not None:
            recorder.notes.append(("wasted", reason))

    return Speculation(Draft("tool", key), ttl=60.0, needs_loop=needs_loop, on_wasted=note)


def real() -> str:
    return "real"


async def areal() -> str:
    return "real"


def test_the_right_call_gets_its_speculation_once() -> None:
    recorder = Recorder()
    speculation = run_of(recorder=recorder)
    speculation.finish("early")
    pending = PendingClaim("k", speculation, recorder)
    assert claim(pending, "tool", "k", real) == "early"
    assert claim(pending, "tool", "k", real) == "real"
    assert [what for what, _ in recorder.notes] == ["claimed", "missed"]


@pytest.mark.parametrize("key", ["edited", None])
def test_edited_arguments_run_for_real_and_the_speculation_is_cancelled(key: str | None) -> None:
    recorder = Recorder()
    speculation = run_of(recorder=recorder)
    pending = PendingClaim("k", speculation, recorder)
    assert claim(pending, "tool", key, real) == "real"
    assert speculation.done
    assert recorder.notes == [
        ("wasted", "the arguments were edited"),
        ("missed", "the arguments were edited"),
    ]


def test_a_failed_speculation_is_a_miss_and_the_real_error_is_the_users() -> None:
    recorder, speculation = Recorder(), run_of()
    speculation.fail(OSError("early"))
    pending = PendingClaim("k", speculation, recorder)

    def fail() -> str:
        raise ValueError("real")

    with pytest.raises(ValueError, match="real"):
        claim(pending, "tool", "k", fail)
    assert recorder.notes[-1] == ("missed", "the speculation failed with OSError")


def test_an_unfinished_run_is_waited_for_in_a_thread() -> None:
    speculation = run_of()
    pending = PendingClaim("k", speculation, Recorder())
    results: list[Any] = []
    claiming = threading.Thread(target=lambda: results.append(claim(pending, "tool", "k", real)))
    claiming.start()
    speculation.finish("early")
    claiming.join()
    assert results == ["early"]


@on_a_loop
async def test_an_event_loop_is_never_blocked() -> None:
    recorder = Recorder()
    unfinished, finished = run_of(), run_of()
    finished.finish("early")
    answers = []
    for speculation in (unfinished, finished):
        pending = PendingClaim("k", speculation, recorder)
        answers.append(claim(pending, "tool", "k", real))
    assert unfinished.done  # it can no longer be claimed
    assert answers == ["real", "early"]
    assert [what for what, _ in recorder.notes] == ["unclaimed", "missed", "claimed"]


def test_a_thread_never_waits_for_a_run_on_an_event_loop() -> None:
    speculation = run_of(needs_loop=True)
    assert claim(PendingClaim("k", speculation, Recorder()), "tool", "k", real) == "real"
    done = run_of(needs_loop=True)
    done.finish("early")
    assert claim(PendingClaim("k", done, Recorder()), "tool", "k", real) == "early"


@pytest.mark.parametrize(
    ("end", "answer"),
    [
        (lambda speculation: speculation.finish("early"), "early"),
        (lambda speculation: speculation.cancel("its event loop ended"), "real"),
    ],
)
@on_a_loop
async def test_a_coroutine_awaits_an_unfinished_run(end: Callable[[Any], object], answer: str) -> None:
    speculation = run_of(needs_loop=True)
    pending = PendingClaim("k", speculation, Recorder())
    claiming = asyncio.create_task(aclaim(pending, "tool", "k", areal))
    await asyncio.sleep(0)
    end(speculation)
    assert (await claiming) == answer


def test_a_result_from_before_a_write_is_not_waited_for() -> None:
    recorder = Recorder()
    running = Speculation(Draft("tool", "k"), ttl=60.0, outdated=lambda: "save was called meanwhile")
    assert claim(PendingClaim("k", running, recorder), "tool", "k", real) == "real"
    assert recorder.notes == [("missed", "save was called meanwhile")]
