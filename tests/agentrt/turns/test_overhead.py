"""CPU time is measured in blocks and in the steps of coroutines, and nowhere else."""

from __future__ import annotations

import asyncio

import pytest

from agentrt.turns.overhead import CpuMeter
from tests.agentrt.loops import on_a_loop


@on_a_loop
async def test_a_block_and_the_steps_of_a_coroutine_are_measured_and_not_its_waits() -> None:
    clock = [0.0]
    meter = CpuMeter(lambda: clock[0])

    async def work() -> None:
        clock[0] += 1
        await asyncio.sleep(0)
        clock[0] += 2

    task = asyncio.create_task(meter.measured(work))
    await asyncio.sleep(0)
    clock[0] += 100  # other tasks, while it waits
    await task
    assert meter.seconds == 3
    with meter.running():
        clock[0] += 4
    assert meter.seconds == 7


@on_a_loop
async def test_results_errors_and_cancellation_pass_through() -> None:
    clock = [0.0]
    meter = CpuMeter(lambda: clock[0])
    ended: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            clock[0] += 5
            ended.append("wait")

    with pytest.raises(ValueError, match="mine"):
        await meter.measured(fail)
    task = asyncio.create_task(meter.measured(wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["wait"]
    assert meter.seconds == 5
