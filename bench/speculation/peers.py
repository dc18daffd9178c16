"""The same streamed agents with an alternative from PyPI: eager-tools-langgraph.

It and OpenAI's eager runner start a call as soon as its arguments are complete in the stream; they
predict none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import BaseTool, StructuredTool

from agentrt.calls import ToolCall
from agentrt.concurrency.clock import monotonic
from agentrt.drafts import DraftRequest
from agentrt.tools.speculable import speculable

from .timed_agents import Times

_PIECES = 20  # of a streamed answer; the calls are in the last of them
_CALL_PIECES = 3  # that each call takes
METHOD = (
    "Peers, in the same run on the same streamed answers, T = G, four turns in five drafted right: "
    "ratio_vs_* is the peer's time by agentrt's, over tasks of one and of two calls a turn."
)
Script = tuple[tuple[ToolCall, ...], ...]


@dataclass(frozen=True, slots=True)
class StreamedTask:
    """A request and the calls of each of the model's turns; the last turn is text."""

    request: str
    turns: Script


def streamed_tasks(calls: Sequence[Sequence[ToolCall]], calls_a_turn: int) -> list[StreamedTask]:
    """Distribute each task's calls over turns."""
    return [
        StreamedTask(
            f"task {number}",
            tuple(
                tuple(ToolCall(call.name, call.arguments) for call in made[place : place + calls_a_turn])
                for place in range(0, len(made), calls_a_turn)
            ),
        )
        for number, made in enumerate(calls)
    ]


class Oracle:
    """Predictor that drafts whole turns, each right with a set chance, after the draft's time."""

    def __init__(self, tasks: Sequence[StreamedTask], draft_s: float, wrong_every: int) -> None:
        """One turn in ``wrong_every`` gets a wrong draft."""
        self.name = "oracle"
        self._turns = {task.request: task.turns for task in tasks}
        self._draft_s = draft_s
        self._wrong_every = wrong_every

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of the turn."""
        await asyncio.sleep(self._draft_s)
        asked = next(message for message in request.messages if message["role"] == "user")
        turns = self._turns[asked["content"]]
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn < len(turns):
            wrong = (turn + len(asked["content"])) % self._wrong_every == 0
            for call in turns[turn]:
                yield ToolCall(call.name, {**call.arguments, "draft": 1}) if wrong else call


class StreamedChat(BaseChatModel):
    """Chat model that streams each answer evenly over its generation time: words, then calls."""

    tasks: Mapping[str, Script]
    generation_s: float

    @property
    def _llm_type(self) -> str:
        return "timed"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model itself: its answers do not depend on tools."""
        return self.bind(tools=[tool.name for tool in tools])

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this model is asynchronous")

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        began = monotonic()
        asked = next(message for message in messages if message.type == "human")
        turn = sum(isinstance(message, AIMessage) for message in messages)
        turns = self.tasks[str(asked.content)]
        calls = turns[turn] if turn < len(turns) else ()
        pieces = [AIMessageChunk(content="" if calls else "word ")] * (_PIECES - _CALL_PIECES * len(calls))
        for index, call in enumerate(calls):
            text = json.dumps(call.arguments)
            for part in range(_CALL_PIECES):
                size = -(-len(text) // _CALL_PIECES)
                piece = {
                    "name": call.name if part == 0 else None,
                    "args": text[part * size : (part + 1) * size],
                    "id": f"call_{asked.content}_{turn}_{index}" if part == 0 else None,
                    "index": index,
                    "type": "tool_call_chunk",
                }
                pieces.append(AIMessageChunk(content="", tool_call_chunks=[piece]))  # type: ignore[list-item]
        for number, message in enumerate(pieces, 1):
            await asyncio.sleep(began + self.generation_s * number / len(pieces) - monotonic())
            yield ChatGenerationChunk(message=message)


class EagerTool:
    """A tool in the shape of eager-tools."""

    idempotent = True

    def __init__(self, name: str, run: Callable[..., Any]) -> None:
        """``run`` is a coroutine function of the arguments as keywords."""
        self.name = name
        self._run = run

    async def __call__(self, arguments: dict[str, Any]) -> str:
        """Run the tool."""
        said: str = await self._run(**arguments)
        return said


def timed_tools(names: Sequence[str], tool_s: float) -> list[BaseTool]:
    """Return LangChain tools of these names that accept any arguments and take ``tool_s`` seconds."""

    def make(name: str) -> BaseTool:
        async def run(**arguments: Any) -> str:
            await asyncio.sleep(tool_s)
            return f"{name} found {sorted(arguments)}"

        schema = {"type": "object", "properties": {}, "additionalProperties": True}
        return StructuredTool.from_function(
            coroutine=run, name=name, description=name, args_schema=schema, infer_schema=False
        )

    return [make(name) for name in names]


async def compare(tasks: Sequence[StreamedTask], times: Times) -> dict[str, tuple[float, list[Any]]]:
    """Run the tasks plain, with eager-tools-langgraph, and with agentrt; return seconds and transcripts."""
    from eager_tools_langgraph import eager_middleware
    from langchain.agents import create_agent

    from agentrt.adapters.langchain import speculate
    from agentrt.speculators import StreamSpeculator

    model = StreamedChat(tasks={task.request: task.turns for task in tasks}, generation_s=times.generation)
    names = sorted({call.name for task in tasks for turn in task.turns for call in turn})
    tools = timed_tools(names, times.tool)
    eager = {tool.name: EagerTool(tool.name, tool.coroutine) for tool in tools}  # type: ignore[attr-defined]
    predictors: list[Any] = [Oracle(tasks, times.draft, wrong_every=5), StreamSpeculator()]
    agents = {
        "plain": create_agent(model, tools),
        "eager-tools-langgraph": create_agent(
            model.bind_tools(tools),
            tools,
            middleware=[eager_middleware(eager)],
        ),
        "agentrt": create_agent(speculate(model, predictors), [speculable(tool) for tool in tools]),
    }
    results = {name: await _do_all(agent, tasks[:1]) for name, agent in agents.items()}  # warm
    for name in agents:
        results[name] = await _do_all(agents[name], tasks)
    return results


async def _do_all(agent: Any, tasks: Sequence[StreamedTask]) -> tuple[float, list[Any]]:
    began = monotonic()
    said = []
    for task in tasks:
        last: list[Any] = []
        async for kind, part in agent.astream(
            {"messages": [("user", task.request)]},
            {"recursion_limit": 50},
            stream_mode=["messages", "values"],
        ):
            last = part["messages"] if kind == "values" else last
        said.append([(m.type, m.text, repr(getattr(m, "tool_calls", None))) for m in last])
    return monotonic() - began, said
