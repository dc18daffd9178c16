"""Results that an engine's tool cache refuses: in the report with the reason, and no matter to the turn."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from agentrt import SpeculationReport, ToolCall, speculable
from agentrt.adapters import langchain
from agentrt.adapters.langchain.chat_model.runtime_answers import _submitter
from agentrt.adapters.openai import arun_tool, report_of, run_tool, speculate
from agentrt.adapters.openai.tool_cache import CAPABILITY
from agentrt.errors import InvalidRequestError
from agentrt.reports import SpeculationEvent, SubmissionRefused
from agentrt.testing import ScriptedSpeculator
from agentrt.toolcache import FinishedCall
from tests.adapters.openai.doubles import TOOLS
from tests.adapters.recording_server import Received, RecordingServer, recording_server
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")

CHAT: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, "stream": True}
DRAFT = ToolCall("look", {"q": "a"})
MADE = ("look", '{"q": "a"}', "call_1")


class Refusals:
    """Keeps the refusals, and says when there is one."""

    def __init__(self) -> None:
        self.events: list[SubmissionRefused] = []
        self.came = threading.Event()

    def on_event(self, event: SpeculationEvent) -> None:
        if isinstance(event, SubmissionRefused):
            self.events.append(event)
            self.came.set()


Result = tuple[Any, SpeculationReport]


def sync_client(server: RecordingServer, tool_cache: Any, refusals: Refusals, output: str) -> Result:
    @speculable(ttl=60)
    def look(q: str) -> str:
        return output

    plain = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    with speculate(
        plain, ScriptedSpeculator([DRAFT]), tools=[look], tool_cache=tool_cache, observers=[refusals]
    ) as client:
        chunks = list(client.chat.completions.create(**CHAT))
        assert refusals.came.wait(PATIENCE_S)
        return run_tool(client, call_in(chunks)), report_of(client)


def async_client(server: RecordingServer, tool_cache: Any, refusals: Refusals, output: str) -> Result:
    @speculable(ttl=60)
    async def look(q: str) -> str:
        return output

    async def main() -> Result:
        plain = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
        unhandled: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        async with speculate(
            plain, ScriptedSpeculator([DRAFT]), tools=[look], tool_cache=tool_cache, observers=[refusals]
        ) as client:
            chunks = [chunk async for chunk in await client.chat.completions.create(**CHAT)]
            assert await asyncio.to_thread(refusals.came.wait, PATIENCE_S)
            assert unhandled == []
            return await arun_tool(client, call_in(chunks)), report_of(client)

    return asyncio.run(main())


def chat_openai(server: RecordingServer, tool_cache: Any, refusals: Refusals, output: str) -> Result:
    @speculable(ttl=60)
    @tool("look")
    def look(q: str) -> str:
        """Look."""
        return output

    plain = ChatOpenAI(base_url=server.url, api_key="none", model="m", max_retries=0)  # type: ignore[arg-type]
    chat = langchain.speculate(
        plain, ScriptedSpeculator([DRAFT]), tool_cache=tool_cache, observers=[refusals]
    )
    first, *rest = chat.bind_tools([look]).stream([HumanMessage("Hi")])
    assert refusals.came.wait(PATIENCE_S)
    (call,) = functools.reduce(lambda one, other: one + other, rest, first).tool_calls
    return look.invoke(call).content, langchain.report_of(chat)


def call_in(chunks: list[Any]) -> Any:
    """The call of a streamed answer that has one."""
    first, *rest = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    first.function.arguments = "".join(call.function.arguments for call in (first, *rest))
    return first


CLIENTS = [sync_client, async_client, chat_openai]


def refusing(status: int) -> AbstractContextManager[RecordingServer]:
    """A server that refuses every tool output, and goes on with its answer once it has one."""
    submitted = threading.Event()

    def refuse(received: Received) -> tuple[int, str] | None:
        if "cache-tool-output" not in received.path:
            return None
        submitted.set()
        return status, "the text of the error"

    return recording_server(
        holds_streams=True,
        capabilities=[CAPABILITY],
        refuse=refuse,
        calls=lambda body: [MADE],
        submitted=submitted,
    )


@pytest.mark.parametrize("tool_cache", [True, "force"])
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, "NotFoundError 404"),
        (413, "APIStatusError 413"),
        (503, "InternalServerError 503"),
        (0, "APIConnectionError"),
    ],
)
@pytest.mark.parametrize("ask", CLIENTS)
def test_a_refusal_is_in_the_report_and_the_call_claims_its_speculation(
    ask: Callable[..., Result], status: int, reason: str, tool_cache: Any
) -> None:
    refusals = Refusals()
    with refusing(status) as server:
        result, report = ask(server, tool_cache, refusals, "found")
    assert result == "found"
    assert (report.total.claims, report.total.misses) == (1, 0)
    assert refusals.events == [SubmissionRefused(1, "look", reason)]
    assert report.tools["look"].refused_submissions == report.total.refused_submissions == 1
    assert report.refusals == {reason: 1}
    assert report.turns[0].problems == (f"the engine's tool cache refused a result of look: {reason}",)
    assert "the text of the error" not in report.model_dump_json() + str(report)


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_result_that_cannot_be_sent_is_reported(ask: Callable[..., Result]) -> None:
    """A lone surrogate has no UTF-8."""
    refusals = Refusals()
    with recording_server(holds_streams=True, submitted=refusals.came, calls=lambda body: [MADE]) as server:
        result, report = ask(server, "force", refusals, "\ud800")
        assert server.outputs == []
    assert result == "\ud800"
    assert report.total.claims == 1
    assert report.refusals == {"UnicodeEncodeError": 1}


def test_accepted_results_are_no_refusals() -> None:
    @speculable
    def look(q: str) -> str:
        return "found"

    with recording_server(holds_streams=True) as server:
        plain = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        with speculate(plain, ScriptedSpeculator([DRAFT]), tools=[look], tool_cache="force") as client:
            assert list(client.chat.completions.create(**CHAT))
            report = report_of(client)
        assert len(server.outputs) == 1
    assert (report.total.refused_submissions, report.refusals) == (0, {})


def test_a_runtime_s_refusal_is_reported() -> None:
    refused: list[Exception] = []
    error = InvalidRequestError("tools", "the chat template has no tool turns. Use another model.")

    def put(*arguments: Any, **options: Any) -> bool:
        raise error

    async def main() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def note(error: Exception) -> None:
            refused.append(error)
            loop.call_soon_threadsafe(done.set)

        _submitter(put)(FinishedCall(DRAFT, "found", 1.0, note))
        await done.wait()

    asyncio.run(main())
    assert refused == [error]
