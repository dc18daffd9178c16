"""eager-tools-langgraph and a LangGraph agent with speculation, on the same streamed answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import StructuredTool

from agentrt.calls import ToolCall
from agentrt.concurrency.clock import monotonic
from agentrt.tools.speculable import speculable

from .replayed_chat import AwaitedChat
from .timed_agents import (
    CALLS_SHARE,
    RIGHT,
    SAME_INFORMATION,
    SIMULATED_DRAFTS,
    Sides,
    SimulatedPredictor,
    TimedWorld,
)

EAGER_TOOLS = "eager-tools-langgraph"
_PIECES = 20  # of a streamed answer
_ANY = {"type": "object", "properties": {}, "additionalProperties": True}


class StreamedChat(AwaitedChat):
    """Chat model that streams each answer evenly over its generation time: words, then calls."""

    reply: Any = None
    world: TimedWorld

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        began = monotonic()
        turn = sum(isinstance(message, AIMessage) for message in messages)
        pieces = _pieces(self.world.calls(messages[0].text, turn), f"{messages[0].text} {turn}")
        for number, message in enumerate(pieces, 1):
            share = number / len(pieces)
            await asyncio.sleep(began + self.world.times.generation * share - monotonic())
            yield ChatGenerationChunk(message=message)


def _pieces(calls: Sequence[ToolCall], place: str) -> list[AIMessageChunk]:
    """Return an answer in pieces that take the same time."""
    parts = int(CALLS_SHARE * _PIECES / max(1, len(calls)))
    pieces = [AIMessageChunk(content="" if calls else "word ")] * (_PIECES - parts * len(calls))
    for index, call in enumerate(calls):
        text = json.dumps(call.arguments)
        size = -(-len(text) // parts)
        for part in range(parts):
            piece: Any = {
                "name": call.name if part == 0 else None,
                "args": text[part * size : (part + 1) * size],
                "id": f"call_{place} {index}" if part == 0 else None,
                "index": index,
                "type": "tool_call_chunk",
            }
            pieces.append(AIMessageChunk(content="", tool_call_chunks=[piece]))
    return pieces


class EagerTool:
    """A tool in the shape of eager-tools."""

    idempotent = True

    def __init__(self, tool: Any) -> None:
        self.name: str = tool.name
        self._run = tool.coroutine

    async def __call__(self, arguments: dict[str, Any]) -> str:
        said: str = await self._run(**arguments)
        return said


def _tool(name: str, world: TimedWorld) -> Any:
    """Return a LangChain tool that accepts any arguments."""

    async def run(**arguments: Any) -> str:
        return await world.run(name, arguments)

    return StructuredTool(name=name, description=name, args_schema=_ANY, coroutine=run)


def eager_tools_sides(world: TimedWorld) -> Sides:
    """Return a plain agent, one with eager-tools-langgraph, and ours without and with simulated drafts."""
    from eager_tools_langgraph import eager_middleware  # of the extra "bench", which `all` does not include

    from agentrt.adapters.langchain import speculate
    from agentrt.speculators import StreamSpeculator

    model: Any = StreamedChat(world=world)
    tools = [_tool(tool.name, world) for tool in world.tools]
    eager = eager_middleware({tool.name: EagerTool(tool) for tool in tools})

    def speculating(*predictors: Any) -> Any:
        early = [speculable(_tool(tool.name, world)) for tool in world.tools]
        return _asker(create_agent(speculate(model, predictors), early))

    return {
        "plain": _asker(create_agent(model, tools)),
        EAGER_TOOLS: _asker(create_agent(model.bind_tools(tools), tools, middleware=[eager])),
        SAME_INFORMATION: speculating(StreamSpeculator()),
        SIMULATED_DRAFTS: speculating(SimulatedPredictor(world, RIGHT), StreamSpeculator()),
    }


def _asker(agent: Any) -> Callable[[str], Awaitable[Any]]:
    async def ask(request: str) -> Any:
        last: list[Any] = []
        async for kind, part in agent.astream(
            {"messages": [("user", request)]},
            {"recursion_limit": 50},
            stream_mode=["messages", "values"],
        ):
            last = part["messages"] if kind == "values" else last
        return [(m.type, m.text, repr(getattr(m, "tool_calls", None))) for m in last]

    return ask
