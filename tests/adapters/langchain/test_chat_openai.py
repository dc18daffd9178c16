"""Early results submitted to `agentrt serve` by LangChain's ChatOpenAI, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI

from agentrt import ToolCall, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.adapters.langchain.messages import openai_messages
from agentrt.errors import ConfigurationError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.toolcache.outputs import ToolOutputs
from agentrt.testing import ScriptedSpeculator
from tests.adapters.doubles import AskedAgain
from tests.runtime.serving.gateway.conftest import gateway_before
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import running

pytestmark = pytest.mark.usefixtures("prediction_is_free")

QUESTION = HumanMessage("What is the weather in Oslo?")
OSLO = ToolCall("get_weather", {"city": "Oslo"})
RESULT = '{"city": "Oslo", "temperature": 12, "sky": "light rain"}'


@speculable
@tool
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return RESULT.replace("Oslo", city)


@pytest.fixture(scope="module")
def server(exact_runtime: LocalRuntime) -> Iterator[Running]:
    with running(exact_runtime) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(server: Running) -> Iterator[Running]:
    """The same engine behind a gateway, which knows nothing of its own cache."""
    with gateway_before(server.url) as gateway:
        yield gateway


class Connections:
    """The connections of this module's models, and the loop on which the async ones live."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._sync = openai.DefaultHttpxClient()
        self._async = openai.DefaultAsyncHttpxClient()

    def chat(self, endpoint: Running, **settings: Any) -> ChatOpenAI:
        return ChatOpenAI(
            base_url=f"{endpoint.url}/v1",
            api_key="none",
            model="nano",
            temperature=0,
            max_completion_tokens=80,
            max_retries=0,
            timeout=60,
            streaming=True,
            http_client=self._sync,
            http_async_client=self._async,
            **settings,
        )

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(main)

    def close(self) -> None:
        self._sync.close()
        self.run(self._async.aclose())
        self._runner.close()


@pytest.fixture(scope="module")
def here(server: Running) -> Iterator[Connections]:
    with closing(Connections()) as connections:
        yield connections


def streamed(here: Connections, chat: Any, predictor: Any = None) -> AIMessage:
    """The message, behind whose call the predictor is asked again: that may not come after the last chunk."""
    total: Any = None
    for chunk in chat.stream([QUESTION]):
        total = chunk if total is None else total + chunk
        if predictor is not None and chunk.text:
            assert predictor.again.wait(30)
    return total  # type: ignore[no-any-return]


def astreamed(here: Connections, chat: Any, predictor: Any = None) -> AIMessage:
    async def main() -> AIMessage:
        total: Any = None
        async for chunk in chat.astream([QUESTION]):
            total = chunk if total is None else total + chunk
            if predictor is not None and chunk.text:
                assert await asyncio.to_thread(predictor.again.wait, 30)
        return total  # type: ignore[no-any-return]

    answer: AIMessage = here.run(main())
    return answer


Ask = Callable[..., AIMessage]


@pytest.mark.parametrize("endpoint", ["server", "gateway"])
@pytest.mark.parametrize("ask", [streamed, astreamed])
@pytest.mark.usefixtures("in_time")
def test_an_answer_goes_on_behind_its_call(
    request: pytest.FixtureRequest, here: Connections, endpoint: str, ask: Ask
) -> None:
    predictor = AskedAgain([OSLO])
    chat = speculate(here.chat(request.getfixturevalue(endpoint)), predictor, tool_cache=True)
    message = ask(here, chat.bind_tools([get_weather]), predictor)
    assert (message.tool_calls, message.response_metadata["finish_reason"]) == ([], "stop")
    assert [block["type"] for block in message.content] == ["server_tool_call", "server_tool_result", "text"]
    call, result, text = message.content_blocks
    assert (call["type"], call["name"], call["args"]) == ("server_tool_call", OSLO.name, OSLO.arguments)
    assert (result["type"], result["tool_call_id"], result["output"]) == (
        "server_tool_result",
        call["id"],
        RESULT,
    )
    assert text["type"] == "text"
    assert "12" in text["text"] == message.text
    assert (report_of(chat).total.claims, report_of(chat).total.misses) == (1, 0)
    # The predictors were asked for what comes next, on a history with the result.
    assert [part["role"] for part in predictor.requests[1].messages] == ["user", "assistant", "tool"]
    assert predictor.requests[1].messages[-1]["content"] == RESULT


def whole(here: Connections, agent: Any, messages: list[Any]) -> list[Any]:
    return agent.invoke({"messages": messages})["messages"]  # type: ignore[no-any-return]


def awhole(here: Connections, agent: Any, messages: list[Any]) -> list[Any]:
    return here.run(agent.ainvoke({"messages": messages}))["messages"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("ask", [whole, awhole])
@pytest.mark.parametrize("output_version", [None, "v1"])
@pytest.mark.usefixtures("in_time")
def test_an_unchanged_agent_says_what_it_would_have_said(
    here: Connections, server: Running, ask: Callable[..., list[Any]], output_version: str | None
) -> None:
    chat = speculate(
        here.chat(server, output_version=output_version), ScriptedSpeculator([OSLO]), tool_cache=True
    )
    agent, usually = create_agent(chat, [get_weather]), create_agent(here.chat(server), [get_weather])
    answered, usual = ask(here, agent, [QUESTION]), ask(here, usually, [QUESTION])
    assert [type(message) for message in answered] == [HumanMessage, AIMessage]
    assert [type(message) for message in usual] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert answered[-1].text == usual[-1].text
    # To the model both histories are the same, so the conversation goes on alike.
    told, expected = openai_messages(answered), openai_messages(usual)
    assert [(part["role"], part.get("content")) for part in told] == [
        (part["role"], part.get("content")) for part in expected
    ]
    thanks = HumanMessage("Thanks!")
    assert ask(here, agent, [*answered, thanks])[-1].text == ask(here, usually, [*usual, thanks])[-1].text


@pytest.mark.parametrize("ask", [streamed, astreamed])
@pytest.mark.parametrize("drafts", [[], [ToolCall("get_weather", {"city": "Rome"})]])
def test_other_calls_are_the_agents(
    here: Connections, server: Running, ask: Ask, drafts: list[ToolCall]
) -> None:
    chat = speculate(here.chat(server), ScriptedSpeculator(drafts), tool_cache=True)
    message, usual = (
        ask(here, chat.bind_tools([get_weather]), None),
        ask(here, here.chat(server).bind_tools([get_weather]), None),
    )
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [(OSLO.name, OSLO.arguments)]
    assert (message.content, message.text) == ([], usual.text)
    assert message.response_metadata == usual.response_metadata


@pytest.mark.parametrize("ask", [streamed, astreamed])
@pytest.mark.parametrize("tool_cache", [False, True])
@pytest.mark.usefixtures("without_tool_cache")
def test_an_endpoint_without_one_answers_as_ever(
    here: Connections, server: Running, start_engine: Callable[[], None], ask: Ask, tool_cache: bool
) -> None:
    """Algorithm 2, and not a word about it."""

    @speculable
    @tool("get_weather")
    def weather(city: str) -> str:
        """Current weather in a city."""
        if not tool_cache:
            start_engine()
        return RESULT

    chat = speculate(here.chat(server), ScriptedSpeculator([OSLO], [OSLO]), tool_cache=tool_cache)
    bound = chat.bind_tools([weather])
    (call,) = ask(here, bound).tool_calls
    assert weather.invoke(call).content == RESULT
    assert (report_of(chat).total.claims, report_of(chat).total.misses) == (1, 0)
    # Once that is known, a call streams as it is written.
    pieces = [chunk for chunk in bound.stream([QUESTION]) if chunk.tool_call_chunks]
    assert len(pieces) > 1


def test_results_that_must_pass_through_the_graph_are_not_submitted(
    here: Connections, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToolOutputs, "put", None)

    @speculable
    @tool("get_weather", return_direct=True)
    def direct(city: str) -> str:
        """Current weather in a city."""
        return RESULT

    chat = speculate(here.chat(server), ScriptedSpeculator([OSLO]), tool_cache=True)
    assert len(streamed(here, chat.bind_tools([direct])).tool_calls) == 1


def test_to_langchain_it_is_the_same_model(here: Connections, server: Running) -> None:
    given = here.chat(server)
    chat = speculate(given, ScriptedSpeculator(), tool_cache=True)
    assert isinstance(chat, ChatOpenAI)
    assert dumpd(chat) == dumpd(given)
    assert (chat._get_llm_string(), chat._get_ls_params()) == (
        given._get_llm_string(),
        given._get_ls_params(),
    )


def test_other_models_do_not_submit(exact_runtime: LocalRuntime) -> None:
    assert isinstance(get_weather, BaseTool)
    with pytest.raises(ConfigurationError, match="its own tool_cache"):
        speculate(ChatAgentRT(runtime=exact_runtime), ScriptedSpeculator(), tool_cache=True)
