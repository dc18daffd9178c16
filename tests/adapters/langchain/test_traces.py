"""What the user's callbacks, streams and traces see of speculation: nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import tool

from agentrt import speculable
from agentrt.adapters.langchain import speculate
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import ScriptedChat
from tests.adapters.langchain.graphs import (
    INPUT,
    THREE,
    Tracer,
    adrive,
    agent,
    async_tool,
)


@pytest.mark.parametrize("streamed", [False, True])
def test_callbacks_and_streams_see_what_they_see_without_speculation(streamed: bool) -> None:
    def run(speculative: bool) -> tuple[list[str], list[Any]]:
        tracer, tokens = Tracer(), []

        async def main() -> None:
            model: Any = ScriptedChat(script=THREE, delay=5)
            if speculative:
                model = speculate(model, ScriptedChat(script=THREE, prefix="draft", delay=1))
            app = agent(model, [async_tool(3, [])])
            if streamed:
                async for message, _ in app.astream(INPUT, {"callbacks": [tracer]}, stream_mode="messages"):
                    tokens.append((message.type, message.content, getattr(message, "tool_call_chunks", None)))
            else:
                async for event in app.astream_events(INPUT, {"callbacks": [tracer]}, version="v2"):
                    tokens.append((event["event"], event["name"]))

        run_in_virtual_time(main)
        return tracer.seen, tokens

    assert run(True) == run(False)


def test_a_speculation_does_not_see_the_users_callbacks() -> None:
    configs: list[Any] = []

    @speculable
    @tool
    async def look(q: str) -> str:
        """Look something up."""
        configs.append(var_child_runnable_config.get())
        await asyncio.sleep(1)
        return q

    async def main() -> None:
        model = speculate(ScriptedChat(script=THREE[:1], delay=5), ScriptedChat(script=THREE[:1]))
        await adrive(agent(model, [look]), False)

    run_in_virtual_time(main)
    assert configs == [None]
