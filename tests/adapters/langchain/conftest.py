import pytest

from agentrt.adapters.langchain import ChatAgentRT
from agentrt.runtime import LocalRuntime


@pytest.fixture
def chat(exact_runtime: LocalRuntime) -> ChatAgentRT:
    """A chat model whose answers are short."""
    return ChatAgentRT(runtime=exact_runtime, max_tokens=64)
