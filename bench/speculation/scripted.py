"""A run by a script: its model or endpoint, a predictor that is always right, a tool that counts its runs."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

import httpx2
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from openai import AsyncOpenAI, OpenAI

from agentrt import speculable
from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.reports.report import SpeculationReport
from agentrt.tools.speculable_tool import SpeculableKeywords

Tool = TypeVar("Tool")
_IDS = {"id", "call_id", "tool_call_id"}
_CONTENTS = ("content", "tool_calls", "artifact", "status")
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

    def __init__(self, turns: int, *, speculative: bool = True) -> None:
        """Turn number n calls ``look`` with n as text; the turn after the last one is text.

        The run is ``speculative``, or that of the framework without agentrt.
        """
        self.turns = turns
        self.speculative = speculative
        self.transcript: list[Any] = []
        """The messages of the model's last request, without ids."""
        self.runs: list[str] = []
        self.right_drafts = 0
        self.name = "always right"

    def call(self, made: int) -> ToolCall | None:
        """Return the call that follows ``made`` calls; None at the end."""
        return ToolCall("look", {"q": f"subject {made}"}) if made < self.turns else None

    def function(self) -> Callable[..., str]:
        """Return the tool as a function."""

        def look(q: str) -> str:
            """Look something up.

            Args:
                q: What to look up.
            """
            self.runs.append(q)
            time.sleep(TOOL_S)
            return f"about {q}"

        return look

    def coroutine_function(self) -> Callable[..., Any]:
        """Return the tool as a coroutine function."""

        async def look(q: str) -> str:
            """Look something up.

            Args:
                q: What to look up.
            """
            self.runs.append(q)
            await asyncio.sleep(TOOL_S)
            return f"about {q}"

        return look

    def generate(self) -> None:
        """Take the time of one of the model's answers."""
        time.sleep(GENERATION_S)

    async def agenerate(self) -> None:
        """Take the time of one of the model's answers."""
        await asyncio.sleep(GENERATION_S)

    def declared(self, tool: Tool, **options: Unpack[SpeculableKeywords]) -> Tool:
        """Return a tool, declared speculable with these options if the run is speculative."""
        return speculable(tool, **options) if self.speculative else tool

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the call that the model is about to make."""
        call = self.call(_calls_made(request.messages))
        if call is not None:
            self.right_drafts += 1
            yield call

    def completion(self, messages: Sequence[Mapping[str, Any]], id: str) -> dict[str, Any]:
        """Return the next answer as chat completions do; its call has the given ``id``."""
        self.transcript = _without_ids(messages)
        call = self.call(_calls_made(messages))
        message: dict[str, Any] = {"role": "assistant", "content": None if call else "done"}
        if call:
            function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
            message["tool_calls"] = [{"id": id, "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
        completion = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        return {**completion, "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}

    def response(self, items: Sequence[Mapping[str, Any]], id: str) -> dict[str, Any]:
        """Return the next answer as the Responses API does; its call has the given ``id``."""
        self.transcript = _without_ids(items)
        call = self.call(sum(item.get("type") == "function_call" for item in items))
        item: dict[str, Any] = {"id": f"item_{id}", "status": "completed"}
        if call:
            arguments = json.dumps(dict(call.arguments))
            item |= {"type": "function_call", "call_id": id, "name": call.name, "arguments": arguments}
        else:
            text = {"type": "output_text", "text": "done", "annotations": []}
            item |= {"type": "message", "role": "assistant", "content": [text]}
        response = {"id": f"answer_{id}", "object": "response", "created_at": 0, "model": "m"}
        rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return {**response, **rest, "output": [item]}


Run = Callable[[Script], Coroutine[Any, Any, SpeculationReport | None]]
"""Runs an agent of a framework by a script; returns the report, or None if the run is not speculative."""


def _calls_made(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many of the script's answers are in a history in the shape of chat completions."""
    return sum(
        message["role"] == "assistant"
        and _is_of_script(call["function"]["name"] for call in message.get("tool_calls") or ())
        for message in messages
    )


def _is_of_script(called: Iterable[str]) -> bool:
    """Whether an answer with these calls is one of the script's, and not one that hands over to an agent."""
    names = set(called)
    return not names or "look" in names


def _without_ids(value: Any) -> Any:
    """Return JSON without the ids of messages and calls, which are drawn anew in every run."""
    if isinstance(value, Mapping):
        return {key: _without_ids(each) for key, each in value.items() if key not in _IDS}
    return [_without_ids(each) for each in value] if isinstance(value, (list, tuple)) else value


def async_client(script: Script) -> AsyncOpenAI:
    """Return a client of an endpoint that answers by the script, with a new id for each call."""
    ids = itertools.count()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        await script.agenerate()
        return _response(script, request, f"call_{next(ids)}")

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return AsyncOpenAI(api_key="unused", base_url="http://scripted/v1", http_client=http, max_retries=0)


def client_of_repeated_ids(script: Script, *, final_tool: str | None = None) -> OpenAI:
    """Return a client of an endpoint that answers by the script; the call of each answer is ``call_0``.

    With ``final_tool`` the last answer is a call of this tool, whose ``answer`` is the text.
    """

    def answer(request: httpx2.Request) -> httpx2.Response:
        script.generate()
        return _response(script, request, "call_0", final_tool)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return OpenAI(api_key="unused", base_url="http://scripted/v1", http_client=http, max_retries=0)


def _response(
    script: Script, request: httpx2.Request, id: str, final_tool: str | None = None
) -> httpx2.Response:
    body = json.loads(request.content)
    if request.url.path.endswith("/responses"):
        return httpx2.Response(200, json=script.response(body["input"], id))
    completion = script.completion(body["messages"], id)
    message = completion["choices"][0]["message"]
    if final_tool is not None and message["content"] is not None:
        function = {"name": final_tool, "arguments": json.dumps({"answer": message["content"]})}
        message |= {"content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}
    return httpx2.Response(200, json=completion)


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
        self.script.transcript = [
            (message.type, *(_without_ids(getattr(message, name, None)) for name in _CONTENTS))
            for message in messages
        ]
        made = sum(
            isinstance(each, AIMessage) and _is_of_script(call["name"] for call in each.tool_calls)
            for each in messages
        )
        call = self.script.call(made)
        calls = [{"name": call.name, "args": dict(call.arguments), "id": f"call_{made}"}] if call else []
        message = AIMessage(content="" if call else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.script.generate()
        return self._answer(messages)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        await self.script.agenerate()
        return self._answer(messages)
