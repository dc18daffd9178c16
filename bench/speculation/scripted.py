"""A run by a script: its model, a predictor that is always right, and a tool that counts its runs."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import httpx2
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from openai import AsyncOpenAI, OpenAI

from agentrt import speculable
from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest

GENERATION_S = 0.03
TOOL_S = 0.01
SCHEMA = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look something up.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    },
}


class Script:
    """A run of ``turns`` calls of the tool ``look``: the model's answers, the drafts, and the tool's work."""

    def __init__(self, turns: int) -> None:
        """Turn number n calls ``look`` with n as text; the turn after the last one is text."""
        self.turns = turns
        self.runs: list[str] = []
        self.right_drafts = 0
        self.name = "always right"

    def call(self, made: int) -> ToolCall | None:
        """Return the call that follows ``made`` calls; None at the end."""
        return ToolCall("look", {"q": f"subject {made}"}) if made < self.turns else None

    def tool(self) -> Callable[[str], str]:
        """Return the tool as a speculable function."""

        @speculable
        def look(q: str) -> str:
            """Look something up."""
            self.runs.append(q)
            time.sleep(TOOL_S)
            return f"about {q}"

        return look

    def async_tool(self) -> Callable[[str], Any]:
        """Return the tool as a speculable coroutine function."""

        @speculable
        async def look(q: str) -> str:
            """Look something up."""
            self.runs.append(q)
            await asyncio.sleep(TOOL_S)
            return f"about {q}"

        return look

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the call that the model is about to make."""
        call = self.call(sum(message["role"] == "assistant" for message in request.messages))
        if call is not None:
            self.right_drafts += 1
            yield call

    def completion(self, messages: Sequence[Mapping[str, Any]], id: str) -> dict[str, Any]:
        """Return the next answer as chat completions do; its call has the given ``id``."""
        call = self.call(sum(message["role"] == "assistant" for message in messages))
        message: dict[str, Any] = {"role": "assistant", "content": None if call else "done"}
        if call:
            function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
            message["tool_calls"] = [{"id": id, "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
        return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def async_client(script: Script) -> AsyncOpenAI:
    """Return a client of an endpoint that answers by the script, with a new id for each call."""
    ids = itertools.count()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(GENERATION_S)
        messages = json.loads(request.content)["messages"]
        return httpx2.Response(200, json=script.completion(messages, f"call_{next(ids)}"))

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return AsyncOpenAI(api_key="unused", base_url="http://scripted/v1", http_client=http, max_retries=0)


def client_of_repeated_ids(script: Script) -> OpenAI:
    """Return a client of an endpoint that answers by the script; the call of each answer is ``call_0``."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        time.sleep(GENERATION_S)
        return httpx2.Response(200, json=script.completion(json.loads(request.content)["messages"], "call_0"))

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return OpenAI(api_key="unused", base_url="http://scripted/v1", http_client=http, max_retries=0)


class ScriptedChat(BaseChatModel):
    """Chat model that answers by a script, with a new id for each call."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model bound to the names of the tools."""
        return self.bind(tools=[SCHEMA for _ in tools])

    def _answer(self, messages: Sequence[BaseMessage]) -> ChatResult:
        made = sum(isinstance(message, AIMessage) for message in messages)
        call = self.script.call(made)
        calls = [{"name": call.name, "args": dict(call.arguments), "id": f"call_{made}"}] if call else []
        message = AIMessage(content="" if call else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        time.sleep(GENERATION_S)
        return self._answer(messages)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(GENERATION_S)
        return self._answer(messages)
