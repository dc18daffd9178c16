"""An assistant without a runtime: its model repeats the last message, and obeys a few words."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

from agentrt import speculable
from agentrt.cli.chat.approval import WhyNot, ask_before_writes
from agentrt.cli.chat.assistant import Assistant
from agentrt.cli.chat.saved_turns import SavedTurns
from agentrt.errors import InvalidRequestError, PromptTooLongError
from agentrt.examples.chat.conversation import Conversation

ESCAPES = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202eknil"
LONG = "word " * 40_000


@speculable
@tool
def look_up(word: str) -> str:
    """Look up a word."""
    return f"{word} is a word"


@tool
def write(word: str) -> str:
    """Write a word."""
    return f"{word} is written"


class Echo(BaseChatModel):
    """Repeats the last message; calls a tool first if that is ``look`` or ``write``."""

    requests: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "echo"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.requests.append(messages)
        last = messages[-1]
        if last.text == "interrupt":
            signal.raise_signal(signal.SIGINT)
        if last.text == "refused":
            raise InvalidRequestError("messages", "cannot be read. Write it otherwise.")
        if last.text == "too long":
            raise PromptTooLongError(9000, 2048, "the model's context", "choose another model")
        again = any(message.text == "look for ever" for message in messages)
        name = "look_up" if again else {"look": "look_up", "write": "write"}.get(last.text)
        calls = [{"name": name, "args": {"word": "roof"}, "id": "c1"}] if name else []
        texts = {"silent": "", "escapes": ESCAPES, "long": LONG}
        said = "" if name else texts.get(last.text, f"you said {last.text}")
        reason = "tool_calls" if name else "length" if last.text == "cut off" else "stop"
        message = AIMessage(
            said,
            tool_calls=calls,
            response_metadata={"finish_reason": reason},
            usage_metadata={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        result = self._generate(messages)
        if messages[-1].text == "interrupt":
            await asyncio.Event().wait()  # until the interrupt cancels it
        if messages[-1].text == "interrupt twice":
            signal.raise_signal(signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                signal.raise_signal(signal.SIGINT)  # while the answer is being stopped
        return result


class Streaming(Echo):
    """Streams its answer line by line. That to ``for ever`` has no end."""

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        if messages[-1].text == "for ever":
            yield ChatGenerationChunk(message=AIMessageChunk("it begins"))
            await asyncio.Event().wait()
        message = self._generate(messages).generations[0].message
        assert isinstance(message, AIMessage)
        for line in message.text.splitlines(keepends=True):
            yield ChatGenerationChunk(message=AIMessageChunk(line))
        last = AIMessageChunk(
            "",
            tool_calls=message.tool_calls,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
        )
        yield ChatGenerationChunk(message=last)


def echo_assistant(
    runner: asyncio.Runner,
    model: Echo,
    *,
    context_tokens: int = 20_000,
    why_not: WhyNot | None = None,
) -> Assistant:
    """Return an assistant whose runtime has nothing but a name and a size."""
    engine = SimpleNamespace(running=1, waiting=2)
    statistics = SimpleNamespace(engine=engine, blocks=8, free_blocks=7, arena_bytes=2**20)
    runtime: Any = SimpleNamespace(
        model_id="echo", context_length=context_tokens, statistics=lambda: statistics
    )
    return Assistant(
        agent=create_agent(
            model,
            [look_up, write],
            middleware=[
                ModelCallLimitMiddleware(run_limit=3, exit_behavior="end"),  # as that of the example
                *([] if why_not is None else [ask_before_writes(why_not)]),
            ],
        ),
        tools=[look_up, write],
        runtime=runtime,
        runner=runner,
        examples=["What is a roof?"],
        asks_before_writes=why_not is not None,
    )


def conversation_with(assistant: Assistant, saved: SavedTurns | None = None) -> Conversation:
    """Return a new conversation, kept in ``saved`` if that is given, or the one that is kept there."""
    turns = saved.load() if saved else []
    return Conversation(assistant.agent, assistant.runtime.context_length, saved, turns)
