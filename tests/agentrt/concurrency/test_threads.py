"""Crossing between threads and loops: outcomes arrive, contexts travel, hanging threads block nothing."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from agentrt.concurrency.hosts import worker_loop
from agentrt.concurrency.threads import loop_caller, on_event_loop, run_in_thread, wait_for
from tests.agentrt.loops import on_a_loop
from tests.patience import PATIENCE_S

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def test_knowing_whether_a_loop_runs_here() -> None:
    async def main() -> tuple[bool, bool]:
        return on_event_loop(), await run_in_thread(on_event_loop, name="test")

    assert not on_event_loop()
    assert asyncio.run(main()) == (True, False)


def test_a_thread_runs_in_the_callers_context_and_hands_over_its_outcome() -> None:
    async def main() -> str:
        variable.set("set by the caller")
        return await run_in_thread(variable.get, name="test")

    assert asyncio.run(main()) == "set by the caller"

    def fail() -> None:
        raise LookupError("from the thread")

    with pytest.raises(LookupError, match="from the thread"):
        asyncio.run(run_in_thread(fail, name="test"))


@on_a_loop
async def test_cancelling_abandons_a_thread_that_hangs() -> None:
    release = threading.Event()
    task = asyncio.create_task(run_in_thread(release.wait, name="test"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


@on_a_loop
async def test_waiting_never_raises_the_outcome() -> None:
    failed: Future[None] = Future()
    failed.set_exception(OSError())
    await wait_for(failed)
    cancelled: Future[None] = Future()
    waiting = asyncio.create_task(wait_for(cancelled))
    await asyncio.sleep(0)
    cancelled.cancel()
    await waiting


@on_a_loop
async def test_calling_into_a_closed_loop_has_no_effect() -> None:
    call_soon = loop_caller()
    called: list[int] = []
    call_soon(lambda: called.append(1))  # type: ignore[operator]
    assert called == []


def test_the_worker_loop_runs_tasks_in_the_callers_context_in_another_thread() -> None:
    found: Future[tuple[str, int]] = Future()

    async def main() -> None:
        found.set_result((variable.get(), threading.get_ident()))

    context = contextvars.copy_context()
    context.run(variable.set, "set by the caller")
    context.run(worker_loop.start, main)
    value, thread = found.result(PATIENCE_S)
    assert value == "set by the caller"
    assert thread != threading.get_ident()


def test_a_process_ends_although_a_speculation_hangs() -> None:
    program = """
import threading
from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.testing import ScriptedSpeculator
started = threading.Event()
@speculable
def look(q: str) -> str:
    started.set()
    threading.Event().wait()
session = SpeculationSession([look], [ScriptedSpeculator([ToolCall("look", {"q": "a"})])])
with session, session.turn([], []):
    assert started.wait(60)
print("left")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")
