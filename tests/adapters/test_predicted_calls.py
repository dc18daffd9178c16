"""Predicted calls reach the engine, which drafts them, before their tools have run: by every adapter."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from agentrt import ToolCall, speculable
from agentrt.adapters import langchain
from agentrt.adapters.anthropic import speculate as speculate_anthropic
from agentrt.adapters.openai import speculate
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.toolcache.outputs import ToolOutputs
from agentrt.testing import ScriptedSpeculator
from tests.adapters.recording_server import RecordingServer, recording_server
from tests.patience import PATIENCE_S
from tests.runtime.conftest import Gate, whole_drafts
from tests.runtime.serving.server.conftest import running

__all__ = ["whole_drafts"]

pytestmark = pytest.mark.usefixtures("prediction_is_free")

QUESTION = [{"role": "user", "content": "What is the weather in Oslo?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: Any = {"name": "get_weather", "description": "Current weather in a city.", "parameters": CITY}
TOOLS: Any = [{"type": "function", "function": FUNCTION}]
OSLO = ToolCall("get_weather", {"city": "Oslo"})
ENTRY = {"name": "get_weather", "params": {"city": "Oslo"}}

Ask = Callable[..., tuple[str, str]]
"""Asks the endpoint with this URL, with the tool's function; returns name and arguments of the call."""


def sync_client(url: str, look: Any) -> tuple[str, str]:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=PATIENCE_S) as plain:
        client = speculate(plain, ScriptedSpeculator([OSLO]), tools=[speculable(look)])
        return call_in(list(client.chat.completions.create(**body())))


def async_client(url: str, look: Any) -> tuple[str, str]:
    async def main() -> tuple[str, str]:
        async with openai.AsyncOpenAI(
            base_url=url, api_key="none", max_retries=0, timeout=PATIENCE_S
        ) as plain:
            client = speculate(plain, ScriptedSpeculator([OSLO]), tools=[speculable(look)])
            return call_in([chunk async for chunk in await client.chat.completions.create(**body())])

    return asyncio.run(main())


def responses(url: str, look: Any) -> tuple[str, str]:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=PATIENCE_S) as plain:
        client = speculate(plain, ScriptedSpeculator([OSLO]), tools=[speculable(look)])
        tools: Any = [{"type": "function", **FUNCTION}]
        events = client.responses.create(model="nano", input=QUESTION[0]["content"], tools=tools, stream=True)
        done = [event.item for event in events if event.type == "response.output_item.done"]
        return done[0].name, done[0].arguments


def messages(url: str, look: Any) -> tuple[str, str]:
    tools: Any = [{"name": "get_weather", "description": FUNCTION["description"], "input_schema": CITY}]
    asked: Any = {"model": "nano", "messages": QUESTION, "tools": tools, "max_tokens": 80}
    host = url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=host, api_key="none", max_retries=0, timeout=PATIENCE_S) as plain:
        client = speculate_anthropic(plain, ScriptedSpeculator([OSLO]), tools=[speculable(look)])
        with client.messages.stream(**asked) as stream:
            (call,) = [block for block in stream.get_final_message().content if block.type == "tool_use"]
        return call.name, json.dumps(call.input)


def chat_openai(url: str, look: Any) -> tuple[str, str]:
    chat = ChatOpenAI(base_url=url, api_key="none", model="nano", max_retries=0, max_tokens=80)
    model = langchain.speculate(chat, ScriptedSpeculator([OSLO])).bind_tools([speculable(tool(look))])
    first, *rest = model.stream(QUESTION)
    return only_call(first.__add__(rest))


def body() -> Any:
    return {"model": "nano", "messages": QUESTION, "tools": TOOLS, "max_tokens": 80, "stream": True}


def call_in(chunks: list[Any]) -> tuple[str, str]:
    first, *rest = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    return first.function.name, "".join(call.function.arguments for call in (first, *rest))


def only_call(message: Any) -> tuple[str, str]:
    (call,) = message.tool_calls
    return call["name"], str(call["args"]).replace("'", '"')


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"rain in {city}"


CLIENTS = [sync_client, async_client, responses, messages, chat_openai]
MADE = ("get_weather", '{"city": "Oslo"}')


def serving(**first: Any) -> Any:
    return recording_server(holds_streams=bool(first), calls=lambda _: [(*MADE, "call_1")], first_event=first)


def submitted(server: RecordingServer) -> list[Any]:
    return [entry for one in server.outputs for entry in one.body]


@pytest.mark.parametrize("ask", CLIENTS)
def test_an_endpoint_that_takes_predicted_calls_gets_them_without_a_setting(ask: Ask) -> None:
    with serving(takes_predicted_calls=True) as server:
        assert ask(server.url, get_weather) == MADE
    assert submitted(server) == [ENTRY]
    assert not [one for one in server.received if one.path.endswith("/models")]


@pytest.mark.parametrize("ask", CLIENTS)
def test_another_endpoint_gets_nothing(ask: Ask) -> None:
    with serving() as server:
        assert ask(server.url, get_weather) == MADE
    assert submitted(server) == []


@pytest.fixture(scope="module")
def drafting_runtime() -> Iterator[LocalRuntime]:
    exact = {"inference_precision": "f32", "kv_cache_precision": "f32", "threads": 1, "drafts": True}
    with LocalRuntime.open("nano", RuntimeConfig(memory_bytes=32 * 2**20, **exact)) as opened:
        yield opened


def by_http(ask: Ask, runtime: LocalRuntime, look: Any) -> tuple[str, str]:
    with running(runtime) as server:
        return ask(f"{server.url}/v1", look)


def chat_agentrt(runtime: LocalRuntime, look: Any, *, streamed: bool) -> tuple[str, str]:
    chat = langchain.ChatAgentRT(runtime=runtime, max_tokens=80)
    model = langchain.speculate(chat, ScriptedSpeculator([OSLO])).bind_tools([speculable(tool(look))])
    if not streamed:
        return only_call(model.invoke(QUESTION))
    first, *rest = model.stream(QUESTION)
    return only_call(first.__add__(rest))


def langgraph(runtime: LocalRuntime, look: Any) -> tuple[str, str]:
    chat = langchain.ChatAgentRT(runtime=runtime, max_tokens=80)
    agent = create_agent(langchain.speculate(chat, ScriptedSpeculator([OSLO])), [speculable(tool(look))])
    messages = asyncio.run(agent.ainvoke({"messages": QUESTION}, {"recursion_limit": 9}))["messages"]
    return only_call(next(message for message in messages if isinstance(message, AIMessage)))


SIDES: dict[str, Callable[[LocalRuntime, Any], tuple[str, str]]] = {
    **{ask.__name__: (lambda runtime, look, ask=ask: by_http(ask, runtime, look)) for ask in CLIENTS},
    "invoke": lambda runtime, look: chat_agentrt(runtime, look, streamed=False),
    "stream": lambda runtime, look: chat_agentrt(runtime, look, streamed=True),
    "langgraph": langgraph,
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.usefixtures("whole_drafts")  # how long a pass takes on this machine decides otherwise
def test_a_call_is_drafted_while_its_tool_runs(
    drafting_runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    runtime = drafting_runtime
    plain = runtime.generate(QUESTION, tools=TOOLS, max_tokens=80)
    gate, drafted, predict = Gate(runtime, monkeypatch), threading.Event(), ToolOutputs.predict

    def predict_and_go_on(self: ToolOutputs, *call: Any) -> bool:
        taken = predict(self, *call)
        gate.open()
        return taken

    monkeypatch.setattr(ToolOutputs, "predict", predict_and_go_on)

    def get_weather(city: str) -> str:
        """Current weather in a city."""
        assert drafted.wait(PATIENCE_S)  # the tool is not done before the model has written the call
        return f"rain in {city}"

    before = runtime.statistics().engine
    released = threading.Thread(target=lambda: _release(runtime, before.accepted_tokens, drafted))
    released.start()
    assert SIDES[side](runtime, get_weather) == MADE
    released.join(PATIENCE_S)
    after = runtime.statistics().engine
    # All of the call behind its opening, and the end of the turn, in one pass.
    assert after.accepted_tokens - before.accepted_tokens >= len(plain.token_ids) - 1


def _release(runtime: LocalRuntime, accepted: int, drafted: threading.Event) -> None:
    """Set ``drafted`` once draft tokens were accepted, or when the patience is over."""
    deadline = time.monotonic() + PATIENCE_S / 2
    while runtime.statistics().engine.accepted_tokens == accepted and time.monotonic() < deadline:
        time.sleep(0.01)
    drafted.set()
