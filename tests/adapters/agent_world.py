"""The world of one agent in every framework: its tool, its predictor, its model or endpoint, its outcome.

The agent asks its model :data:`TURNS` times; each answer but the last calls ``look``. The predictor is always
right, and the model answers once the predicted call has started, so that each call could claim.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from openai import AsyncOpenAI, OpenAI

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.reports.report import SpeculationReport
from tests.adapters.openai.doubles import chat_completion, chat_events, response
from tests.patience import PATIENCE_S

TURNS = 5
PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
SCHEMA: Any = {"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}


@dataclass(frozen=True)
class Outcome:
    """What an agent did: the runs of its tool, in order, and the report on its model or client."""

    runs: Sequence[str]
    results: Sequence[str]
    """The results that the model was given."""
    report: SpeculationReport

    @property
    def double_runs(self) -> int:
        """How many calls ran the tool more than once."""
        return len(self.runs) - len(set(self.runs))


Run = Callable[[], Outcome]


class CountedTool:
    """The tool ``look``, as a sync and as a coroutine function, which notes its runs. Thread-safe."""

    def __init__(self) -> None:
        """Create a tool that has not run."""
        self.runs: list[str] = []
        self._changed = threading.Condition()

    def function(self) -> Callable[[str], str]:
        """Return the sync function."""

        def look(q: str) -> str:
            """Look something up.

            Args:
                q: What to look up.
            """
            with self._changed:
                self.runs.append(q)
                self._changed.notify_all()
            return f"found {q}"

        return look

    def coroutine_function(self) -> Callable[[str], Coroutine[Any, Any, str]]:
        """Return the coroutine function."""
        run = self.function()

        async def look(q: str) -> str:
            return run(q)

        look.__doc__ = run.__doc__
        return look

    def wait_until_asked(self, turn: int) -> None:
        """Wait until the tool has run the call of this turn, if it has one."""
        with self._changed:
            if turn < TURNS - 1 and not self._changed.wait_for(lambda: str(turn) in self.runs, PATIENCE_S):
                raise TimeoutError(f"look({turn}) was not run speculatively. See the report for the reason.")

    async def until_asked(self, turn: int) -> None:
        """:meth:`wait_until_asked` for async code."""
        await asyncio.to_thread(self.wait_until_asked, turn)


class Oracle:
    """Drafts the next call of the agent."""

    name = "oracle"

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the call of ``look`` that follows the history."""
        done = calls_made(request.messages)
        if done < TURNS - 1:
            yield ToolCall("look", {"q": str(done)})


def calls_made(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many calls of ``look`` a history has; smolagents tells of calls in text."""
    names = [
        {call["function"]["name"] for call in message.get("tool_calls") or ()}
        for message in messages
        if message["role"] == "assistant"
    ]
    return sum(not each or "look" in each for each in names)


class ScriptedModel(BaseChatModel):
    """A LangChain model that calls ``look`` with the number of the turn."""

    counted: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[each.name for each in tools])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.counted.wait_until_asked(turn := self._turn(messages))
        return self._answer(turn)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        await self.counted.until_asked(turn := self._turn(messages))
        return self._answer(turn)

    def _turn(self, messages: list[BaseMessage]) -> int:
        return sum(message.type == "tool" and message.name in ("look", None) for message in messages)

    def _answer(self, turn: int) -> ChatResult:
        call: Any = {"name": "look", "args": {"q": str(turn)}, "id": f"call_{turn}", "type": "tool_call"}
        message = AIMessage("", tool_calls=[call]) if turn < TURNS - 1 else AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=message)])


class Endpoint:
    """An OpenAI-compatible endpoint, also streaming."""

    def __init__(self, counted: CountedTool, *, repeats_ids: bool, final_tool: str | None = None) -> None:
        """``counted`` is the tool whose speculative runs its answers wait for.

        With ``repeats_ids`` each call has the id ``call_0``; the last answer is a call of ``final_tool``, if
        there is one.
        """
        self.results: list[str] = []
        self._counted = counted
        self._repeats_ids = repeats_ids
        self._final_tool = final_tool

    def client(self) -> OpenAI:
        """Return a client whose requests it answers."""
        http = httpx2.Client(transport=httpx2.MockTransport(self._respond))
        return OpenAI(api_key="unused", base_url="http://server/v1", http_client=http)

    def async_client(self) -> AsyncOpenAI:
        """Return an async client whose requests it answers."""
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._arespond))
        return AsyncOpenAI(api_key="unused", base_url="http://server/v1", http_client=http)

    def _respond(self, request: Any) -> Any:
        self._counted.wait_until_asked(turn := self._turn(request))
        return self._response(request, turn)

    async def _arespond(self, request: Any) -> Any:
        await self._counted.until_asked(turn := self._turn(request))
        return self._response(request, turn)

    def _turn(self, request: Any) -> int:
        body = json.loads(request.content)
        if "input" in body:
            self.results = [item["output"] for item in body["input"] if "output" in item]
            return len(self.results)
        self.results = [str(each["content"]) for each in body["messages"] if each["role"] == "tool"]
        return calls_made(body["messages"])

    def _response(self, request: Any, turn: int) -> Any:
        call_id = "call_0" if self._repeats_ids else f"call_{turn}"
        calls = [("look", json.dumps({"q": str(turn)}), call_id)]
        if turn == TURNS - 1:
            calls = [] if self._final_tool is None else [(self._final_tool, '{"answer": "done"}', call_id)]
        if request.url.path.endswith("/responses"):
            return httpx2.Response(200, json=response(turn, calls))
        if not json.loads(request.content).get("stream"):
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            return httpx2.Response(200, json={**chat_completion(calls), "usage": usage})
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in chat_events(calls))
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, text=text + "data: [DONE]\n\n", headers=headers)
