"""The speculative runs of a turn end with it: preparations are discarded, tasks awaited."""

from __future__ import annotations

import asyncio
from typing import Any

from agentrt import speculable
from agentrt.testing import run_in_virtual_time
from agentrt.tools.runner import SpeculativeRuns
from agentrt.tools.speculable import speculable_tool
from agentrt.tools.speculation import Draft, Speculation


def test_what_is_prepared_is_discarded_when_the_turn_ends() -> None:
    discarded: list[str] = []

    async def prepare(q: str) -> str:
        return f"prepared {q}"

    async def discard(prepared: str) -> None:
        await asyncio.sleep(1)
        discarded.append(prepared)

    async def commit(prepared: str) -> None: ...

    @speculable(prepare=prepare, commit=commit, discard=discard, ttl=60)
    async def act(q: str) -> None: ...

    tool: Any = speculable_tool(act)
    abandoned: list[str] = []

    async def main() -> float:
        runs = SpeculativeRuns(lambda tool, error: None, abandoned.append)
        speculation = Speculation(Draft("act", "k"), ttl=60, needs_loop=True)
        assert tool.slots.acquire(blocking=False)
        runs.start(tool, tool.bind({"q": "a"}), speculation)
        await speculation.over()
        await runs.stop()
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(main) == 1
    assert (discarded, abandoned) == (["prepared a"], [])
