"""Virtual time elapses in order, exactly, and at once."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from agentrt import DraftRequest, ToolCall
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time


def test_sleeping_takes_no_time_and_is_ordered() -> None:
    async def main() -> tuple[list[str], float]:
        order: list[str] = []

        async def wait(seconds: float, name: str) -> None:
            await anyio.sleep(seconds)
            order.append(name)

        await asyncio.gather(wait(7200, "late"), wait(3600, "early"))
        return order, asyncio.get_running_loop().time()

    assert run_in_virtual_time(main) == (["early", "late"], 7200)


def test_timeouts_expire_in_virtual_time() -> None:
    async def main() -> None:
        with anyio.fail_after(10):
            await anyio.sleep(11)

    with pytest.raises(TimeoutError):
        run_in_virtual_time(main)


def test_a_thread_is_waited_for() -> None:
    async def main() -> bool:
        return await asyncio.to_thread(threading.Event().wait, 0.01)

    assert run_in_virtual_time(main) is False


def test_a_scripted_speculator_follows_its_script() -> None:
    predictor = ScriptedSpeculator([ToolCall("a", {})], [ToolCall("b", {}), OSError("down")], delay=2)

    async def ask() -> list[str]:
        names = []
        try:
            async for call in predictor.drafts(DraftRequest([], [])):
                names.append(call.name)
        except OSError:
            names.append("OSError")
        return names

    async def main() -> list[list[str]]:
        return [await ask(), await ask(), await ask()]

    assert run_in_virtual_time(main) == [["a"], ["b", "OSError"], []]
    assert len(predictor.requests) == 3
