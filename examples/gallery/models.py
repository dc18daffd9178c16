"""The local runtime as LangChain's chat model."""

from __future__ import annotations

from agentrt.adapters.langchain import ChatAgentRT

from ..assistant.paced import PacedChatAgentRT
from . import TOKENS_PER_SECOND


def chat_model(name: str) -> ChatAgentRT:
    """Return the model ``name``, with nano held to the pace of a larger one."""
    if name == "nano":
        return PacedChatAgentRT(model=name, tokens_per_second=TOKENS_PER_SECOND)
    return ChatAgentRT(model=name)
