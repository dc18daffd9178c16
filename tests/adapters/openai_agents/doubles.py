"""Agents of the Agents SDK on scripted models, whose answers wait for what is run speculatively."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from agents import Agent, RunConfig, Runner, RunResult, function_tool
from agents.models.interface import Model, ModelProvider
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from agentrt import DraftRequest, ToolCall, speculable
from agentrt.adapters.openai_agents import report_of, speculate
from tests.patience import PATIENCE_S

T = TypeVar("T")
SILENT = RunConfig(tracing_disabled=True)
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


class Runs:
    """Notes the runs of tools; a model's answer can wait for one. Thread-safe."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self._changed = threading.Condition()

    def note(self, run: str) -> str:
        with self._changed:
            self.made.append(run)
            self._changed.notify_all()
        return f"found {run}"

    def until(self, *runs: str) -> Callable[[], Awaitable[None]]:
        """Return an async function that waits until all of these runs have begun."""

        def wait() -> None:
            with self._changed:
                if not self._changed.wait_for(lambda: set(runs) <= set(self.made), PATIENCE_S):
                    raise TimeoutError(f"{runs} were not run speculatively. See the report for the reason.")

        async def until() -> None:
            await asyncio.to_thread(wait)

        return until


class Drafts:
    """Drafts the calls of each turn of a script. The turn is the number of answers in the history."""

    name = "drafts"

    def __init__(self, *turns: Sequence[ToolCall]) -> None:
        self.requests: dict[int, DraftRequest] = {}
        self._turns = turns
        self._asked = asyncio.Event()
        self._decided = asyncio.Event()

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        turn = sum(message["role"] == "assistant" for message in request.messages)
        self.requests[turn] = request
        self._asked.set()
        for call in self._turns[turn] if turn < len(self._turns) else ():
            yield call
        self._decided.set()

    async def until_decided(self) -> None:
        """Wait until the drafts of a turn have been decided on: tools that are run have been started."""
        await asyncio.wait_for(self._decided.wait(), PATIENCE_S)

    async def until_asked(self) -> None:
        """Wait until it is asked for a turn."""
        self._asked.clear()
        await asyncio.wait_for(self._asked.wait(), PATIENCE_S)


class Trial:
    """A run of agents, plain or speculating: what is declared and awaited in one and not in the other."""

    def __init__(self, speculates: bool) -> None:
        self.speculates = speculates
        self.runs = Runs()
        self._chats: list[Any] = []

    @property
    def claims(self) -> list[int]:
        """The claims of each of the trial's models."""
        return [report_of(chat).total.claims for chat in self._chats]

    def until(self, *runs: str) -> Callable[[], Awaitable[None]] | None:
        """Wait for speculative runs; the plain trial has none."""
        return self.runs.until(*runs) if self.speculates else None

    def model(self, *steps: Any, drafts: Sequence[Sequence[ToolCall]]) -> Any:
        """Return a model that answers with these steps, whose turns' calls are drafted."""
        chat: Any = model(*steps)
        if self.speculates:
            chat = speculate(chat, Drafts(*drafts))
            self._chats.append(chat)
        return chat

    def tool(self, tool: Any) -> Any:
        """Return the tool, declared speculable."""
        return speculable(tool) if self.speculates else tool


def compared(run: Callable[[Trial], Coroutine[Any, Any, T]]) -> tuple[T, Trial]:
    """Run plain and speculating; both have the same outcome and runs. Return the outcome and the latter."""
    plain, speculating = Trial(False), Trial(True)
    expected, found = asyncio.run(run(plain)), asyncio.run(run(speculating))
    assert found == expected
    assert sorted(speculating.runs.made) == sorted(plain.runs.made)
    return found, speculating


class ByUser:
    """Drafts the call that the user's words name."""

    name = "by user"

    def __init__(self, call: Callable[[str], ToolCall]) -> None:
        self._call = call

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        if request.messages[-1]["role"] == "user":
            yield self._call(request.messages[-1]["content"])


class Provider(ModelProvider):
    """Has these models, by their names."""

    def __init__(self, **models: Model) -> None:
        self._models = models

    def get_model(self, model_name: str | None) -> Model:
        return self._models[model_name or ""]


def look_tool(runs: Runs, *, is_async: bool = True, **options: Any) -> Any:
    """Return the tool ``look`` of a function, which notes its runs; the options are those of the SDK."""

    def look(q: str) -> str:
        """Look something up."""
        return runs.note(q)

    async def alook(q: str) -> str:
        """Look something up."""
        return runs.note(q)

    return function_tool(alook if is_async else look, name_override="look", **options)


def declared_look(runs: Runs, *, before_approval: bool = False, **options: Any) -> Any:
    """Return :func:`look_tool`, declared speculable."""
    return speculable(before_approval=before_approval)(look_tool(runs, **options))


def look(q: str) -> ToolCall:
    """Return a draft of ``look``."""
    return ToolCall("look", {"q": q})


def calling(*calls: ToolCall, after: Callable[[], Awaitable[object]] | None = None) -> ModelStep:
    """Return an answer with these calls, whose ids are their names and arguments, once ``after`` has come."""
    return _answering([_item(call) for call in calls], after)


def saying(text: str = "done", after: Callable[[], Awaitable[object]] | None = None) -> ModelStep:
    """Return an answer of text."""
    return _answering([assistant_message(text)], after)


def _item(call: ToolCall) -> Any:
    call_id = call.id or f"{call.name} {dict(call.arguments)}"
    return function_call(call.name, call.arguments, call_id=call_id, item_id=f"item of {call_id}")


def _answering(items: Sequence[Any], after: Callable[[], Awaitable[object]] | None) -> ModelStep:
    async def respond(_: Any) -> Sequence[Any]:
        if after is not None:
            await after()
        return items

    return ModelStep.respond(respond)


async def settled() -> None:
    """Let the loop do what can be done without waiting, such as running a tool speculatively."""
    for _ in range(1000):
        await asyncio.sleep(0)


def after(event: asyncio.Event) -> Callable[[], Awaitable[None]]:
    """Return an async function that waits for ``event`` and for what it sets going on the loop."""

    async def wait() -> None:
        await event.wait()
        await settled()

    return wait


def model(*steps: Any) -> ScriptedModel:
    """Return a model that answers with these steps."""
    return ScriptedModel(steps)


def agent(model: Any, *tools: Any, name: str = "agent", **settings: Any) -> Agent[Any]:
    """Return an agent with these tools."""
    return Agent(name=name, model=model, tools=list(tools), **settings)


async def run(agent: Agent[Any], *, streamed: bool = False, input: Any = "hi", **options: Any) -> Any:
    """Run an agent, without traces; return its result, which is complete."""
    config = options.pop("run_config", SILENT)
    if not streamed:
        return await Runner.run(agent, input, run_config=config, **options)
    result = Runner.run_streamed(agent, input, run_config=config, **options)
    async for _ in result.stream_events():
        pass
    return result


def transcript(result: RunResult) -> list[Any]:
    """Return the input and all items of a run."""
    return result.to_input_list()


def outputs(result: RunResult) -> list[str]:
    """Return the outputs of the tools of a run."""
    items: Any = result.to_input_list()
    return [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
