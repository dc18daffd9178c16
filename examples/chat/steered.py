"""The personal assistant with its steering, on a model that is open here or in a server, and opened data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.services import Latencies
from agentrt.examples.assistant.steering import Steering
from agentrt.examples.chat.served import ServedChat
from agentrt.examples.personal_assistant import (
    MOST_TOKENS,
    NANO_PROMPT,
    SYSTEM_PROMPT,
    Agent,
    assistant_agent,
    assistant_tools,
)
from agentrt.runtime import LocalRuntime

CHAT_APP: Final = "chat"
"""The app whose contexts a chat keeps."""
_MOST_TOKENS: Final = 1024
"""Tokens of an answer of any model but nano."""


def chat_model(runtime: LocalRuntime | ServedChat, max_tokens: int) -> BaseChatModel:
    """Return the model of ``runtime``, which writes at most ``max_tokens`` at once."""
    if isinstance(runtime, ServedChat):
        return runtime.model_copy(update={"max_tokens": max_tokens})
    return ChatAgentRT(runtime=runtime, max_tokens=max_tokens, app=CHAT_APP)


def steered_agent(
    runtime: LocalRuntime | ServedChat,
    data: PersonalData,
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    *,
    max_tokens: int | None = None,
    weather_delay: float = 0.0,
    web: bool = True,
    now: Callable[[], dt.datetime] = dt.datetime.now,
) -> tuple[Agent, Sequence[BaseTool]]:
    """Return the assistant with its tools; ``middleware`` is around these, ``now`` returns the local time.

    Its calls are planned at once, so that there is nothing to speculate on.

    The web is imitated, and not there for nano, which was not trained on it.

    Raises:
        ConfigurationError: the delay is out of range.
    """
    nano = runtime.model_id == "nano"
    if max_tokens is None:
        max_tokens = MOST_TOKENS if nano else _MOST_TOKENS
    model = chat_model(runtime, max_tokens)
    latencies = Latencies(mail=0, weather=weather_delay, web=0)
    tools = assistant_tools(data, latencies, web=web and not nano, changes=True)
    around = [Steering(data, None if nano else model, now), *middleware]
    return assistant_agent(model, tools, around, NANO_PROMPT if nano else SYSTEM_PROMPT), tools
