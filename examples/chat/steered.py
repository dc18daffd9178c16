"""The personal assistant with its steering, on an opened model and opened data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool

from agentrt import SpeculationReport
from agentrt.adapters.langchain import ChatAgentRT, report_of
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.services import Latencies
from agentrt.examples.assistant.steering import Steering
from agentrt.examples.personal_assistant import (
    MOST_TOKENS,
    Agent,
    assistant_agent,
    assistant_tools,
    speculative,
    system_prompt,
)
from agentrt.runtime import LocalRuntime

_MOST_TOKENS: Final = 1024
"""Tokens of an answer of any model but nano."""


@dataclass(frozen=True)
class SteeredAgent:
    """An agent, its tools, and the report of its predicted calls."""

    agent: Agent
    tools: Sequence[BaseTool]
    report: Callable[[], SpeculationReport]


def steered_agent(
    runtime: LocalRuntime,
    data: PersonalData,
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    *,
    max_tokens: int | None = None,
    weather_delay: float = 0.0,
    web: bool = True,
    now: Callable[[], dt.datetime] = dt.datetime.now,
) -> SteeredAgent:
    """Return the assistant; ``middleware`` is around its tools, ``now`` returns the local time.

    The web is imitated, and not there for nano, which was not trained on it.

    Raises:
        ConfigurationError: the delay is out of range.
    """
    nano = runtime.model_id == "nano"
    if max_tokens is None:
        max_tokens = MOST_TOKENS if nano else _MOST_TOKENS
    plain = ChatAgentRT(runtime=runtime, max_tokens=max_tokens)
    with_drafts = speculative(ChatAgentRT(runtime=runtime, max_tokens=max_tokens))
    tools = assistant_tools(data, Latencies(mail=0, weather=weather_delay, web=0), web=web and not nano)
    steering = Steering(data, None if nano else plain, now)
    agent = assistant_agent(with_drafts, tools, [steering, *middleware], system_prompt(runtime))
    return SteeredAgent(agent, tools, lambda: report_of(with_drafts))
