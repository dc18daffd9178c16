"""Agents of ``create_agent`` with random middleware, some of it gates: each is run on a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
    dynamic_prompt,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from agentrt.adapters.langchain import allow_speculation
from tests.adapters.doubles import ScriptedChat
from tests.adapters.langchain.random_graphs import GATING, Log, looking, pauses_of, run_gated


class _Gate(AgentMiddleware[Any, Any, Any]):
    """Middleware of which one method is a gate."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log


class _AroundTool(_Gate):
    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self._log.gate()
        return await handler(request)


class _AfterModel(_Gate):
    async def aafter_model(self, state: Any, runtime: Any) -> Any:
        if state["messages"][-1].tool_calls:
            interrupt("?")
            self._log.gate()


class _AroundModel(_Gate):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        answer = await handler(request)
        if answer.result[0].tool_calls:
            self._log.gate()
        return answer


class _Stricter(ToolRetryMiddleware):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self._log.gate()
        return await super().awrap_tool_call(request, handler)


class _BeforeModel(AgentMiddleware[Any, Any, Any]):
    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        return None


@allow_speculation
class _Marked(_BeforeModel):
    pass


MIDDLEWARE: dict[str, Callable[[Log], Any]] = {
    "person": lambda log: HumanInTheLoopMiddleware({"look": True}),
    "around_tool": _AroundTool,
    "after_model": _AfterModel,
    "around_model": _AroundModel,
    "stricter": _Stricter,
}
"""Middleware that is a gate."""


@dynamic_prompt
async def _prompt(request: Any) -> str:
    return "be brief"


ORDINARY: dict[str, Callable[[Log], Any]] = {
    "person_for_another": lambda log: HumanInTheLoopMiddleware({"send": True}),
    "retry_tool": lambda log: ToolRetryMiddleware(),
    "retry_model": lambda log: ModelRetryMiddleware(),
    "to_do": lambda log: TodoListMiddleware(),
    "summary": lambda log: SummarizationMiddleware(ScriptedChat()),
    "pii": lambda log: PIIMiddleware("email"),
    "prompt": lambda log: _prompt,
    "before_model": lambda log: _BeforeModel(),
    "marked": lambda log: _Marked(),
}
"""Middleware that decides nothing about the call of ``look``."""


@dataclass(frozen=True)
class Agent:
    """An agent of ``create_agent``."""

    middleware: Sequence[str] = ()
    pauses: Sequence[tuple[str, str]] = ()
    at_invocation: bool = False
    callback: bool = False
    denies = False

    @property
    def gated(self) -> bool:
        """Whether the call of ``look`` has a gate to pass."""
        return (
            self.callback or self.pauses[:1] in GATING or any(name in MIDDLEWARE for name in self.middleware)
        )


def run_agent_of(shape: Agent) -> tuple[Log, Any]:
    """Run an agent to its end, with a person who lets everything pass; return its log and the report."""

    def build(model: Any, log: Log) -> Any:
        middleware = [{**MIDDLEWARE, **ORDINARY}[name](log) for name in shape.middleware]
        settings: Any = {} if shape.at_invocation else pauses_of(shape)
        return create_agent(
            model, [looking(log)], middleware=middleware, checkpointer=InMemorySaver(), **settings
        )

    return run_gated(shape, build)
