import asyncio
from uuid import uuid4

import pytest

from agentrt.examples.assistant import stopwatch as stopwatch_module
from agentrt.examples.assistant.stopwatch import Stopwatch


def test_calls_that_overlap_are_timed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 12.0, 14.0, 20.0, 25.0, 30.0, 30.5])
    monkeypatch.setattr(stopwatch_module, "perf_counter", lambda: next(clock))
    watch = Stopwatch()
    first, second, tool, broken = uuid4(), uuid4(), uuid4(), uuid4()

    async def events() -> None:
        await watch.on_chat_model_start({}, [], run_id=first)
        await watch.on_chat_model_start({}, [], run_id=second)
        await watch.on_llm_end(None, run_id=first)
        await watch.on_llm_end(None, run_id=second)
        await watch.on_tool_start({}, "", run_id=tool)
        await watch.on_tool_end("", run_id=tool)
        await watch.on_tool_start({}, "", run_id=broken)
        await watch.on_tool_error(KeyError(), run_id=broken)

    asyncio.run(events())
    assert (watch.model_calls, watch.model_seconds, watch.tool_seconds) == (2, 5.0, 5.5)
