"""Virtual time elapses in order, exactly, and at once."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from agentrt import DraftRequest, ToolCall
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.agentrt.loops import in_virtual_time


@in_virtual_time
async def test_sleeping_takes_no_time_and_is_ordered() -> None:
    order: list[str] = []

    async def wait(seconds: float, name: str) -> None:
        await anyio.sleep(seconds)
        order.append(name)

    await asyncio.gather(wait(7200, "late"), wait(3600, "early"))
    assert (order, asyncio.get_running_loop().time()) == (["early", "late"], 7200)


def test_timeouts_expire_in_virtual_time() -> None:
    async def main() -> None:
        with anyio.fail_after(10):
            await anyio.sleep(11)

    with pytest.raises(TimeoutError):
        run_in_virtual_time(main)


@in_virtual_time
async def test_a_thread_is_waited_for() -> None:
    assert (await asyncio.to_thread(threading.Event().wait, 0.01)) is False


@in_virtual_time
async def test_a_scripted_speculator_follows_its_script() -> None:
    predictor = ScriptedSpeculator([ToolCall("a", {})], [ToolCall("b", {}), OSError("down")], delay=2)

    async def ask() -> list[str]:
        names = []
        try:
            async for call in predictor.drafts(DraftRequest([], [])):
                names.append(call.name)
        except OSError:
            names.append("OSError")
        return names

    assert [await ask(), await ask(), await ask()] == [["a"], ["b", "OSError"], []]
    assert len(predictor.requests) == 3
