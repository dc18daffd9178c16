"""Calls between threads and event loops that never block a loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def on_event_loop() -> bool:
    """Whether this thread runs an event loop, which blocking the thread would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def loop_caller() -> Callable[[Callable[[], object]], None]:
    """Return a function that schedules a callback on this thread's event loop, from any thread.

    It has no effect once the loop is closed.
    """
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def call_soon(callback: Callable[[], object]) -> None:
        # Waking the loop costs system calls, and in its own thread it is awake.
        schedule = loop.call_soon if threading.get_ident() == thread else loop.call_soon_threadsafe
        with suppress(RuntimeError):
            schedule(callback)

    return call_soon


async def wait_for(future: Future[T]) -> None:
    """Wait until ``future`` is done in any thread; its error is not raised."""
    if future.done():
        return
    done = asyncio.Event()
    call_soon = loop_caller()
    future.add_done_callback(lambda _: call_soon(done.set))
    await done.wait()


def start_in_thread(function: Callable[[], T], *, name: str, daemon: bool = True) -> Future[T]:
    """Start a blocking function in a thread of its own, in a copy of this context.

    A ``daemon`` thread does not keep the process alive if the function hangs; otherwise the process waits
    for the thread before it ends.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # a thread cannot be cancelled
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(function))
        except BaseException as error:  # noqa: BLE001 - raised where the future is read
            outcome.set_exception(error)

    threading.Thread(target=work, name=name, daemon=daemon).start()
    return outcome


async def run_in_thread(function: Callable[[], T], *, name: str) -> T:
    """Run a blocking function in a thread of its own and wait for it without blocking the loop.

    Cancelling the wait abandons the thread: Python cannot stop it, so the function runs to its end and its
    result is dropped.
    """
    outcome = start_in_thread(function, name=name)
    await wait_for(outcome)
    return outcome.result()
