"""The same streamed agents with an alternative from PyPI: eager-tools-langgraph.

It and OpenAI's eager runner start a call as soon as its arguments are complete in the stream; they
predict none. ``StreamSpeculator`` has the same information; a predictor that drafts before the model has
written anything has more.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import BaseTool, StructuredTool

from agentrt.calls import ToolCall, canonical_key
from agentrt.concurrency.clock import monotonic
from agentrt.drafts import DraftRequest
from agentrt.tools.speculable import speculable

from .timed_agents import Times

CALLS_SHARE = 0.6  # of an answer's time that its calls take together; they come last
_PIECES = 20  # of a streamed answer
SAME_INFORMATION = "agentrt, same information"
SIMULATED_DRAFTS = "agentrt, simulated drafts"
_RIGHT = 0.8  # of the simulated drafts
Script = tuple[tuple[ToolCall, ...], ...]


@dataclass(frozen=True, slots=True)
class StreamedTask:
    """A request and the calls of each of the model's turns; the last turn is text."""

    request: str
    turns: Script


@dataclass(frozen=True, slots=True)
class Timed:
    """What one side needed for all tasks, in seconds, and what it said."""

    seconds: float
    transcripts: list[Any]


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


class SimulatedDrafts:
    """Predictor that knows the tasks and drafts whole turns, four in five of them right."""

    def __init__(self, tasks: Sequence[StreamedTask], draft_s: float, seed: int) -> None:
        """``draft_s`` is the time of a draft in seconds; ``seed`` decides which turns are drafted right."""
        self.name = "simulated drafts"
        self.shares_cores = False
        self._turns = {task.request: task.turns for task in tasks}
        self._draft_s = draft_s
        self._seed = seed

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of the turn."""
        await asyncio.sleep(self._draft_s)
        asked = next(message for message in request.messages if message["role"] == "user")["content"]
        turns = self._turns[asked]
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn < len(turns):
            right = random.Random(f"{self._seed} {asked} {turn}").random() < _RIGHT
            for call in turns[turn]:
                yield call if right else ToolCall(call.name, {**call.arguments, "draft": 1})


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
        parts = int(CALLS_SHARE * _PIECES / max(1, len(calls)))
        pieces = [AIMessageChunk(content="" if calls else "word ")] * (_PIECES - parts * len(calls))
        for index, call in enumerate(calls):
            text = json.dumps(call.arguments)
            size = -(-len(text) // parts)
            for part in range(parts):
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


class TimedRuns:
    """Runs of tools, whose seconds depend on the call and the seed only, as those of the simulated agents."""

    def __init__(self, times: Times) -> None:
        """``times`` has the mean, spread and seed."""
        self._times = times

    async def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return a result after the call's time."""
        await asyncio.sleep(self._times.drawn(self._times.tool, canonical_key(name, arguments)))
        return f"{name} found {sorted(arguments)}"

    def langchain_tools(self, names: Sequence[str]) -> list[BaseTool]:
        """Return LangChain tools of these names that accept any arguments."""
        return [self._langchain_tool(name) for name in names]

    def _langchain_tool(self, name: str) -> BaseTool:
        async def run(**arguments: Any) -> str:
            return await self.run(name, arguments)

        schema = {"type": "object", "properties": {}, "additionalProperties": True}
        return StructuredTool.from_function(
            coroutine=run, name=name, description=name, args_schema=schema, infer_schema=False
        )


async def compare(tasks: Sequence[StreamedTask], times: Times) -> dict[str, Timed]:
    """Run the tasks plain, with eager-tools-langgraph, and with agentrt without and with simulated drafts."""
    from eager_tools_langgraph import eager_middleware  # of the extra "bench", which `all` does not include

    from agentrt.adapters.langchain import speculate
    from agentrt.speculators import StreamSpeculator

    model = StreamedChat(tasks={task.request: task.turns for task in tasks}, generation_s=times.generation)
    names = sorted({call.name for task in tasks for turn in task.turns for call in turn})
    runs = TimedRuns(times)
    tools = runs.langchain_tools(names)
    eager = {tool.name: EagerTool(tool.name, tool.coroutine) for tool in tools}  # type: ignore[attr-defined]
    simulated = SimulatedDrafts(tasks, times.draft, times.seed)
    return await run_in_turn(
        tasks,
        {
            "plain": _asker(create_agent(model, tools)),
            "eager-tools-langgraph": _asker(
                create_agent(model.bind_tools(tools), tools, middleware=[eager_middleware(eager)])
            ),
            SAME_INFORMATION: _asker(
                create_agent(speculate(model, StreamSpeculator()), [speculable(tool) for tool in tools])
            ),
            SIMULATED_DRAFTS: _asker(
                create_agent(
                    speculate(model, [simulated, StreamSpeculator()]),
                    [speculable(tool) for tool in runs.langchain_tools(names)],
                )
            ),
        },
    )


async def run_in_turn(
    tasks: Sequence[StreamedTask], sides: Mapping[str, Callable[[StreamedTask], Awaitable[Any]]]
) -> dict[str, Timed]:
    """Let every side do the first task once without counting it, and then each task, the sides in turn."""
    for do in sides.values():
        await do(tasks[0])
    seconds = dict.fromkeys(sides, 0.0)
    said: dict[str, list[Any]] = {name: [] for name in sides}
    for task in tasks:
        for name, do in sides.items():
            began = monotonic()
            said[name].append(await do(task))
            seconds[name] += monotonic() - began
    return {name: Timed(seconds[name], said[name]) for name in sides}


def _asker(agent: Any) -> Callable[[StreamedTask], Awaitable[Any]]:
    async def do(task: StreamedTask) -> Any:
        last: list[Any] = []
        async for kind, part in agent.astream(
            {"messages": [("user", task.request)]},
            {"recursion_limit": 50},
            stream_mode=["messages", "values"],
        ):
            last = part["messages"] if kind == "values" else last
        return [(m.type, m.text, repr(getattr(m, "tool_calls", None))) for m in last]

    return do
