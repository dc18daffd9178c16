"""What an endpoint with the tool cache of SpecTools §4.1 receives, and what it refuses.

Refusals are in the report with the reason, and no matter to the turn.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from agentrt import SpeculationReport, ToolCall, speculable
from agentrt.adapters import anthropic, langchain
from agentrt.adapters.langchain.chat_model.answers import AnswerFormat, ChunkConverter
from agentrt.adapters.langchain.chat_model.runtime_answers import _in_thread, _put
from agentrt.adapters.langchain.messages import openai_messages
from agentrt.adapters.openai import arun_tool, report_of, run_tool, speculate
from agentrt.adapters.stainless.tool_cache import CAPABILITY
from agentrt.calls import CallFinished, CallStarted, TextDelta
from agentrt.errors import InvalidRequestError
from agentrt.reports import SpeculationEvent, SubmissionRefused
from agentrt.runtime import CallAnswered
from agentrt.testing import ScriptedSpeculator
from agentrt.toolcache import FinishedCall
from tests.adapters.anthropic.doubles import ASKED
from tests.adapters.openai.doubles import TOOLS
from tests.adapters.recording_server import Received, RecordingServer, recording_server
from tests.adapters.stainless.doubles import HI
from tests.patience import PATIENCE_S, until

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


class Asking:
    """A tool, its draft, and a request; ``refused`` says that the refusal of its result is awaited."""

    def __init__(self, tool_cache: Any, output: Any = "found", *, refused: bool = False) -> None:
        self.tool_cache = tool_cache
        self.output = output
        self.refusals = Refusals()
        self._refused = refused

    def options(self) -> dict[str, Any]:
        """Return the options of every ``speculate``."""
        return {"tool_cache": self.tool_cache, "observers": [self.refusals]}

    def settle(self) -> None:
        """Wait for the refusal, if there is one."""
        assert not self._refused or self.refusals.came.wait(PATIENCE_S)


def sync_client(server: RecordingServer, asking: Asking) -> Result:
    @speculable(ttl=5)
    def look(q: str) -> Any:
        return asking.output

    drafts = ScriptedSpeculator([DRAFT])
    with speculate(server.client(), drafts, tools=[look], **asking.options()) as client:
        chunks = list(client.chat.completions.create(**CHAT))
        asking.settle()
        return run_tool(client, call_in(chunks)), report_of(client)


def async_client(server: RecordingServer, asking: Asking) -> Result:
    @speculable(ttl=5)
    async def look(q: str) -> Any:
        return asking.output

    async def main() -> Result:
        drafts = ScriptedSpeculator([DRAFT])
        unhandled: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        async with speculate(server.async_client(), drafts, tools=[look], **asking.options()) as client:
            chunks = [chunk async for chunk in await client.chat.completions.create(**CHAT)]
            await asyncio.to_thread(asking.settle)
            assert unhandled == []
            return await arun_tool(client, call_in(chunks)), report_of(client)

    return asyncio.run(main())


def messages(server: RecordingServer, asking: Asking) -> Result:
    @speculable(ttl=5)
    def look(q: str) -> Any:
        return asking.output

    drafts = ScriptedSpeculator([DRAFT])
    plain = server.anthropic_client()
    with anthropic.speculate(plain, drafts, tools=[look], **asking.options()) as client:
        with client.messages.stream(messages=[HI], **ASKED) as stream:
            (call,) = stream.get_final_message().content
        asking.settle()
        return anthropic.run_tool(client, call), anthropic.report_of(client)


def chat_openai(server: RecordingServer, asking: Asking) -> Result:
    @speculable(ttl=5)
    @tool("look")
    def look(q: str) -> Any:
        """Look."""
        return asking.output

    chat = langchain.speculate(server.chat(), ScriptedSpeculator([DRAFT]), **asking.options())
    first, *rest = chat.bind_tools([look]).stream([HumanMessage("Hi")])
    asking.settle()
    (call,) = functools.reduce(lambda one, other: one + other, rest, first).tool_calls
    return look.invoke(call).content, langchain.report_of(chat)


def call_in(chunks: list[Any]) -> Any:
    """The call of a streamed answer that has one."""
    first, *rest = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    first.function.arguments = "".join(call.function.arguments for call in (first, *rest))
    return first


CLIENTS = [sync_client, async_client, messages, chat_openai]
OUTPUT_PATHS = {messages: "/cache-tool-output/msg_0"}
FOUND = {"found": "a"}


def serving(**settings: Any) -> AbstractContextManager[RecordingServer]:
    """A server that calls ``look``, and goes on with its answer once it has a tool output."""
    return recording_server(holds_streams=True, calls=lambda body: [MADE], **settings)


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_listed_capability_gets_entries_for_one_call_each(ask: Callable[..., Result]) -> None:
    with serving(capabilities=[CAPABILITY]) as server:
        ask(server, Asking(True, FOUND))
        (output,) = server.outputs
    assert output.path == OUTPUT_PATHS.get(ask, "/v1/cache-tool-output/x")
    (entry,) = output.body
    assert 0 < entry.pop("keep_alive") <= 5
    assert entry == {"name": "look", "params": {"q": "a"}, "output": '{"found": "a"}', "reusable": False}
    assert [one.path for one in server.received].count("/v1/models") == 1


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_forced_endpoint_gets_the_papers_fields_and_is_not_asked_for_its_models(
    ask: Callable[..., Result],
) -> None:
    with serving() as server:
        ask(server, Asking("force", FOUND))
        (output,) = server.outputs
    (entry,) = output.body
    assert entry.keys() == {"name", "params", "output", "keep_alive"}
    assert 0 < entry["keep_alive"] <= 5
    assert "/v1/models" not in [one.path for one in server.received]


def refusing(status: int) -> AbstractContextManager[RecordingServer]:
    """A server that refuses every tool output, and goes on with its answer once it has one."""
    submitted = threading.Event()

    def refuse(received: Received) -> tuple[int, str] | None:
        if "cache-tool-output" not in received.path:
            return None
        submitted.set()
        return status, "the text of the error"

    return serving(capabilities=[CAPABILITY], refuse=refuse, submitted=submitted)


REFUSED = [
    (404, "NotFoundError 404"),
    (413, "APIStatusError 413"),
    (503, "InternalServerError 503"),
    (0, "APIConnectionError"),
]


@pytest.mark.parametrize("tool_cache", [True, "force"])
@pytest.mark.parametrize(
    ("ask", "status", "reason"),
    [
        (ask, status, reason)
        for ask in CLIENTS
        for status, reason in REFUSED
        if ask is not messages or status in (404, 0)  # it has other names for other errors
    ],
)
def test_a_refusal_is_in_the_report_and_the_call_claims_its_speculation(
    ask: Callable[..., Result], status: int, reason: str, tool_cache: Any
) -> None:
    asking = Asking(tool_cache, refused=True)
    with refusing(status) as server:
        result, report = ask(server, asking)
    assert result == "found"
    assert (report.total.claims, report.total.misses) == (1, 0)
    assert asking.refusals.events == [SubmissionRefused(1, "look", reason)]
    assert report.tools["look"].refused_submissions == report.total.refused_submissions == 1
    assert report.refusals == {reason: 1}
    assert report.turns[0].problems == (f"the engine's tool cache refused a result of look: {reason}",)
    assert "the text of the error" not in report.model_dump_json() + str(report)


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_result_that_cannot_be_sent_is_reported(ask: Callable[..., Result]) -> None:
    """A lone surrogate has no UTF-8."""
    asking = Asking("force", "\ud800", refused=True)
    with serving(submitted=asking.refusals.came) as server:
        result, report = ask(server, asking)
        assert server.outputs == []
    assert result == "\ud800"
    assert report.total.claims == 1
    assert report.refusals == {"UnicodeEncodeError": 1}


def test_accepted_results_are_no_refusals() -> None:
    with serving() as server:
        _, report = sync_client(server, Asking("force"))
        assert len(server.outputs) == 1
    assert (report.total.refused_submissions, report.refusals) == (0, {})


def test_a_forced_endpoint_that_refuses_thrice_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(received: Any) -> tuple[int, str] | None:
        if "cache-tool-output" not in received.path:
            return None
        return 404, "no such path"

    @speculable(ttl=5)
    def look(q: str) -> str:
        return q

    with recording_server(holds_streams=True, refuse=refuse) as server:
        drafts = ScriptedSpeculator(*[[DRAFT]] * 5)
        with speculate(server.client(), drafts, tools=[look], tool_cache="force") as client:
            for turn in range(5):
                server.submitted.clear()
                if turn >= 3:
                    server.submitted.set()
                assert list(client.chat.completions.create(**CHAT))
                settle(client, min(turn + 1, 3))
        assert len(server.outputs) == 3
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert ["has refused 3 tool outputs" in warning for warning in warnings] == [True]


def settle(client: Any, refusals: int) -> None:
    """Wait until the submitting thread has read the refusal."""
    cache = client._agentrt_state.tool_cache.of(client)
    until(lambda: cache._failures == refusals)


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

        stream: Any = SimpleNamespace(tool_outputs=SimpleNamespace(put=put))
        _in_thread(functools.partial(_put, stream))(FinishedCall(DRAFT, "found", 1.0, refused=note))
        await done.wait()

    asyncio.run(main())
    assert refused == [error]


@speculable
@tool("look")
def look_tool(q: str) -> str:
    """Look."""
    return q


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


ANSWERED = [
    chunk(role="assistant", content=""),
    chunk(content="I look. "),
    chunk(tool_calls=[{"index": 0, "id": "c", "type": "function", "function": {"name": "look"}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"q": "a"}'}}]),
    chunk(tool_results=[{"index": 0, "tool_call_id": "c", "name": "look", "content": "A"}]),
    chunk(content="It is "),
    chunk(content="A."),
    chunk("stop"),
]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_message_with_an_answered_call_has_only_blocks(streaming: bool) -> None:
    with recording_server(events=ANSWERED) as server:
        chat = langchain.speculate(server.chat(streaming=True), ScriptedSpeculator(), tool_cache="force")
        bound = chat.bind_tools([look_tool])
        message: Any = None
        if streaming:
            for piece in bound.stream([HumanMessage("Hi")]):
                assert isinstance(piece.content, list)
                message = piece if message is None else message + piece
        else:
            message = bound.invoke([HumanMessage("Hi")])
    kinds = [block["type"] for block in message.content]
    assert kinds == ["text", "server_tool_call", "server_tool_result", "text"]
    assert [block["text"] for block in message.content if "text" in block] == ["I look. ", "It is A."]
    assert (message.text, message.tool_calls) == ("I look. It is A.", [])
    (call, result, answer) = openai_messages([message])
    assert (call["content"], call["tool_calls"][0]["function"]["name"]) == ("I look. ", "look")
    assert (result["content"], answer["content"]) == ("A", "It is A.")


def test_the_runtime_s_messages_are_the_same_blocks() -> None:
    call = ToolCall("look", {"q": "a"}, "c")
    events: Any = [
        TextDelta("I look. "),
        CallStarted(0, "look"),
        CallFinished(0, call),
        CallAnswered(0, call, "A"),
        TextDelta("It is "),
        TextDelta("A."),
    ]
    runtime: Any = SimpleNamespace(model_id="nano")
    converter = ChunkConverter(AnswerFormat(runtime, in_blocks=True))
    first, *rest = [piece.message for event in events for piece in converter.chunks(event)]
    content = first.__add__(rest).content  # type: ignore[operator]
    assert [block["type"] for block in content] == ["text", "server_tool_call", "server_tool_result", "text"]
    assert [block["text"] for block in content if "text" in block] == ["I look. ", "It is A."]


def test_text_in_blocks_goes_back_to_the_model_as_text() -> None:
    blocks: Any = [{"type": "text", "text": "Hi", "index": "lc_txt_0"}]
    (message,) = openai_messages([AIMessage(blocks)])
    assert message["content"] == "Hi"
