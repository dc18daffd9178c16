"""Runs of a LangGraph agent: one request from the question to the answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage
from langgraph.errors import GraphRecursionError

SYSTEM_PROMPT = "You are a helpful assistant."
_MAX_STEPS = 12


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One request, run once."""

    seconds: float
    transcript: tuple[Any, ...]
    generations: tuple[float, ...]
    """Seconds of each turn of the model that called tools."""
    tool_calls: int
    tokens: tuple[int, int]
    """Tokens that the main model has read and written."""

    @property
    def tokens_per_second(self) -> float:
        """Tokens written by seconds (SpecTools §5)."""
        return self.tokens[1] / self.seconds

    @property
    def answer(self) -> str:
        return str(self.transcript[-1][1])


def agent_on(model: Any, tools: Sequence[Any]) -> Any:
    """Return an agent on a chat model."""
    return create_agent(model, tools, system_prompt=SYSTEM_PROMPT)


async def ask(agent: Any, request: str, *callbacks: Any) -> AgentRun:
    """Run the agent on one request, up to the step limit if the model never answers."""
    clock = _ModelClock()
    messages: list[Any] = []
    given = {"messages": [("user", request)]}
    started = time.perf_counter()
    with suppress(GraphRecursionError):
        async for state in agent.astream(
            given, {"recursion_limit": _MAX_STEPS, "callbacks": [clock, *callbacks]}, stream_mode="values"
        ):
            messages = state["messages"]
    seconds = time.perf_counter() - started
    answers = [message for message in messages if isinstance(message, AIMessage)]
    usages = [answer.usage_metadata for answer in answers if answer.usage_metadata]
    return AgentRun(
        seconds=seconds,
        transcript=tuple(_without_ids(message) for message in messages),
        generations=tuple(
            spent for spent, answer in zip(clock.seconds, answers, strict=True) if answer.tool_calls
        ),
        tool_calls=sum(len(answer.tool_calls) for answer in answers),
        tokens=(sum(each["input_tokens"] for each in usages), sum(each["output_tokens"] for each in usages)),
    )


class _ModelClock(AsyncCallbackHandler):
    """Callback that collects the seconds of each model request, in order."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = 0.0

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self._began = time.perf_counter()

    async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.seconds.append(time.perf_counter() - self._began)


def _without_ids(message: Any) -> tuple[Any, ...]:
    calls = [(call["name"], sorted(call["args"].items())) for call in getattr(message, "tool_calls", [])]
    return message.type, message.text, repr(calls)
