"""Runs a tool speculatively: in a task of its own on the caller's loop, or in a thread of its own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from ..concurrency.threads import loop_caller, start_in_thread
from .speculable_tool import Invocation, SpeculableTool
from .speculation import Speculation

DiscardFailureListener = Callable[[SpeculableTool, BaseException], None]


def start_speculation(
    tool: SpeculableTool,
    invocation: Invocation,
    speculation: Speculation,
    runs: TaskGroup,
    on_discard_failed: DiscardFailureListener,
) -> None:
    """Start the tool, or its preparation, and watch it in ``runs``. Releases the tool's slot at the end.

    ``on_discard_failed`` is called with the error of discarding an unclaimed preparation.
    """
    if speculation.needs_loop:
        task = _start_coroutine(tool, invocation, speculation, on_discard_failed)
        runs.start_soon(_watch_coroutine, tool, speculation, task, on_discard_failed)
    else:
        _start_function(tool, invocation, speculation, on_discard_failed)
        runs.start_soon(_watch_function, tool, speculation, on_discard_failed)


def _start_coroutine(
    tool: SpeculableTool,
    invocation: Invocation,
    speculation: Speculation,
    on_discard_failed: DiscardFailureListener,
) -> asyncio.Task[None]:
    async def work() -> None:
        assert tool.speculative_acall is not None
        try:
            value = await tool.speculative_acall(*invocation.args, **invocation.kwargs)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a failed speculation is a miss
            speculation.fail(error)
            return
        if not speculation.finish(value) and tool.two_phase:  # it finished although it was cancelled
            await _discard(tool, value, on_discard_failed)

    # A task and no cancel scope: asyncio code expects one cancellation and may await while it cleans up; in a
    # cancelled scope each of these awaits would be cancelled again.
    task = asyncio.get_running_loop().create_task(work(), name=f"agentrt speculation {tool.name}")
    task.add_done_callback(lambda _: speculation.cancel("the speculation was cancelled"))
    speculation.when_over(tool.slots.release)
    return task


async def _watch_coroutine(
    tool: SpeculableTool,
    speculation: Speculation,
    task: asyncio.Task[None],
    on_discard_failed: DiscardFailureListener,
) -> None:
    """Cancel the task when its speculation is cancelled, and wait until it has cleaned up."""
    try:
        await _over_or_too_late(tool, speculation)
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        await _settle(tool, speculation, on_discard_failed)


def _start_function(
    tool: SpeculableTool,
    invocation: Invocation,
    speculation: Speculation,
    on_discard_failed: DiscardFailureListener,
) -> None:
    def work() -> None:
        assert tool.speculative_call is not None
        # Set in this thread, so that a thread that waits for the result depends on no event loop.
        try:
            value = tool.speculative_call(*invocation.args, **invocation.kwargs)
        except BaseException as error:  # noqa: BLE001 - a failed speculation is a miss
            speculation.fail(error)
        else:
            if not speculation.finish(value) and tool.options.discard is not None:
                try:
                    tool.options.discard(value)
                except BaseException as error:  # noqa: BLE001 - it belongs to no call; the report has it
                    on_discard_failed(tool, error)
        finally:
            tool.slots.release()

    try:
        start_in_thread(work, name=f"agentrt speculation {tool.name}")
    except RuntimeError as error:  # the system has no thread left
        speculation.fail(error)
        tool.slots.release()


async def _watch_function(
    tool: SpeculableTool, speculation: Speculation, on_discard_failed: DiscardFailureListener
) -> None:
    try:
        await _over_or_too_late(tool, speculation)
    finally:
        await _settle(tool, speculation, on_discard_failed)


async def _over_or_too_late(tool: SpeculableTool, speculation: Speculation) -> None:
    """Wait until the run is over; cancel it at the tool's timeout, unless its call has been made."""
    call_soon = loop_caller()
    timeout = tool.options.timeout
    with anyio.CancelScope(deadline=anyio.current_time() + timeout) as limit:

        def lift() -> None:
            limit.deadline = math.inf

        speculation.when_expected(lambda: call_soon(lift))
        await speculation.over()
    speculation.cancel(f"the speculation took longer than {timeout} s")


async def _settle(
    tool: SpeculableTool, speculation: Speculation, on_discard_failed: DiscardFailureListener
) -> None:
    """Discard a preparation that is not claimed within the tool's ttl."""
    if not tool.two_phase:
        return
    try:
        with anyio.move_on_after(tool.options.ttl):
            await speculation.settled()
    finally:
        speculation.drop("the preparation was not used in time")
        with anyio.CancelScope(shield=True):
            left = await speculation.settled()
            if left.usable:
                await _discard(tool, left.value, on_discard_failed)


async def _discard(tool: SpeculableTool, value: Any, on_discard_failed: DiscardFailureListener) -> None:
    try:
        await tool.adiscard(value)
    except Exception as error:  # noqa: BLE001 - it belongs to no call; the report has it
        on_discard_failed(tool, error)
