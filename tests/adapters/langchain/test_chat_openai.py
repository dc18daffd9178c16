"""ChatAgentRT and, on `agentrt serve`, ChatOpenAI: the same answers, and early results inside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, closing
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

from agentrt import Priority, ToolCall, priority, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.adapters.langchain.chat_model.answers import is_call_answered
from agentrt.adapters.langchain.chat_model.runtime_answers import RuntimeAnswers
from agentrt.adapters.langchain.messages import openai_messages
from agentrt.errors import ConfigurationError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.toolcache.outputs import ToolOutputs
from agentrt.testing import ScriptedSpeculator
from tests.adapters.doubles import AskedAgain
from tests.adapters.langchain.chats import HELLO, QUESTION, RESULT, Ask, get_weather, ways
from tests.adapters.langchain.chats import whole as joined
from tests.patience import PATIENCE_S
from tests.runtime.serving.gateway.conftest import gateway_before
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import running

pytestmark = pytest.mark.usefixtures("prediction_is_free")

OSLO = ToolCall("get_weather", {"city": "Oslo"})
ROME = ToolCall("get_weather", {"city": "Rome"})


class Local:
    """Chat models on the runtime of this process."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime

    def chat(self, **settings: Any) -> Any:
        return ChatAgentRT(runtime=self._runtime, max_tokens=80, **settings)

    def speculating(self, predictor: Any, *, tool_cache: bool = True, **settings: Any) -> Any:
        return speculate(self.chat(tool_cache=tool_cache, **settings), predictor)

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(main)


class Remote:
    """Chat models of one endpoint, their connections, and the loop on which the async ones live."""

    def __init__(self, endpoint: Running) -> None:
        self._url = f"{endpoint.url}/v1"
        self._runner = asyncio.Runner()
        self._sync, self._async = openai.DefaultHttpxClient(), openai.DefaultAsyncHttpxClient()

    def chat(self, **settings: Any) -> Any:
        given: dict[str, Any] = {"base_url": self._url, "api_key": "none", "model": "nano"}
        given |= {"temperature": 0, "max_completion_tokens": 80, "max_retries": 0, "timeout": 60}
        return ChatOpenAI(http_client=self._sync, http_async_client=self._async, **given | settings)

    def speculating(self, predictor: Any, *, tool_cache: bool = True, **settings: Any) -> Any:
        return speculate(self.chat(streaming=True, **settings), predictor, tool_cache=tool_cache)

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(main)

    def close(self) -> None:
        self._sync.close()
        self.run(self._async.aclose())
        self._runner.close()


@pytest.fixture(scope="module")
def local(exact_runtime: LocalRuntime) -> Local:
    return Local(exact_runtime)


@pytest.fixture(scope="module")
def serving(exact_runtime: LocalRuntime) -> Iterator[Running]:
    with running(exact_runtime) as server:
        yield server


@pytest.fixture(scope="module")
def server(serving: Running) -> Iterator[Remote]:
    with closing(Remote(serving)) as remote:
        yield remote


@pytest.fixture(scope="module")
def gateway(serving: Running) -> Iterator[Remote]:
    """The same engine behind a gateway, which knows nothing of its own cache."""
    with gateway_before(serving.url) as gateway, closing(Remote(gateway)) as remote:
        yield remote


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def runs() -> list[str]:
    return []


@pytest.fixture
def weather(runs: list[str]) -> BaseTool:
    @speculable
    @tool("get_weather")
    def weather(city: str) -> str:
        """Current weather in a city."""
        runs.append(city)
        return RESULT.replace("Oslo", city)

    return weather


@pytest.fixture
def asked_again(monkeypatch: pytest.MonkeyPatch) -> AskedAgain:
    """A predictor of one call, for whose second turn local answers wait behind the result of that call."""
    predictor = AskedAgain([OSLO])
    events = RuntimeAnswers._events

    async def waiting(self: RuntimeAnswers, *given: Any) -> AsyncGenerator[Any, None]:
        answered = False
        async with aclosing(events(self, *given)) as answer:
            async for event in answer:
                if answered and not is_call_answered(event):  # the next turn has begun
                    assert await asyncio.to_thread(predictor.again.wait, PATIENCE_S)
                answered = is_call_answered(event)
                yield event

    monkeypatch.setattr(RuntimeAnswers, "_events", waiting)
    return predictor


def whole(place: Any, chat: Any, predictor: Any = None) -> Any:
    return chat.invoke([QUESTION])


def awhole(place: Any, chat: Any, predictor: Any = None) -> Any:
    return place.run(chat.ainvoke([QUESTION]))


def whole_on_a_loop(place: Any, chat: Any, predictor: Any = None) -> Any:
    async def main() -> Any:
        return chat.invoke([QUESTION])

    return place.run(main())


def streamed(place: Any, chat: Any, predictor: Any = None) -> Any:
    """The message, behind whose call the predictor is asked again: that may not come after the last chunk."""
    total: Any = None
    for chunk in chat.stream([QUESTION]):
        total = chunk if total is None else total + chunk
        assert predictor is None or not chunk.text or predictor.again.wait(PATIENCE_S)
    return total


def astreamed(place: Any, chat: Any, predictor: Any = None) -> Any:
    async def main() -> Any:
        total: Any = None
        async for chunk in chat.astream([QUESTION]):
            total = chunk if total is None else total + chunk
            if predictor is not None and chunk.text:
                assert await asyncio.to_thread(predictor.again.wait, PATIENCE_S)
        return total

    return place.run(main())


STREAMS = [(place, ask) for place in ("local", "server", "gateway") for ask in (streamed, astreamed)]
LOCAL = [("local", ask) for ask in (whole, awhole, whole_on_a_loop)]


@pytest.mark.parametrize(("place", "ask"), STREAMS + LOCAL, indirect=["place"])
@pytest.mark.usefixtures("in_time")
def test_an_answer_goes_on_behind_its_call(
    place: Any, ask: Ask, weather: BaseTool, runs: list[str], asked_again: AskedAgain
) -> None:
    chat = place.speculating(asked_again)
    message = ask(place, chat.bind_tools([weather]), asked_again)
    assert (message.tool_calls, message.response_metadata["finish_reason"]) == ([], "stop")
    assert [block["type"] for block in message.content] == ["server_tool_call", "server_tool_result", "text"]
    call, result, text = message.content
    assert (call["name"], call["args"]) == (OSLO.name, OSLO.arguments)
    assert (result["tool_call_id"], result["output"]) == (call["id"], RESULT)
    assert "12" in text["text"] == message.text
    assert runs == ["Oslo"]
    assert (report_of(chat).total.claims, report_of(chat).total.misses) == (1, 0)
    # The predictors were asked for what comes next, on a history with the result.
    assert len(asked_again.requests) == 2
    assert [part["role"] for part in asked_again.requests[1].messages] == ["user", "assistant", "tool"]
    assert asked_again.requests[1].messages[-1]["content"] == RESULT


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("place", "settings"),
    [("local", {}), ("server", {}), ("server", {"output_version": "v1"})],
    indirect=["place"],
)
@pytest.mark.usefixtures("in_time")
def test_an_unchanged_agent_says_what_it_would_have_said(
    place: Any, settings: Any, weather: BaseTool, is_async: bool
) -> None:
    def ask(agent: Any, messages: list[Any]) -> Any:
        asked = {"messages": messages}
        return (place.run(agent.ainvoke(asked)) if is_async else agent.invoke(asked))["messages"]

    agent = create_agent(place.speculating(ScriptedSpeculator([OSLO]), **settings), [weather])
    usually = create_agent(place.chat(), [weather])
    answered, usual = ask(agent, [QUESTION]), ask(usually, [QUESTION])
    assert [type(message) for message in answered] == [HumanMessage, AIMessage]
    assert [type(message) for message in usual] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert answered[-1].text == usual[-1].text
    # To the model both histories are the same, so the conversation goes on alike.
    told, expected = openai_messages(answered), openai_messages(usual)
    assert [(part["role"], part.get("content")) for part in told] == [
        (part["role"], part.get("content")) for part in expected
    ]
    thanks = HumanMessage("Thanks!")
    assert ask(agent, [*answered, thanks])[-1].text == ask(usually, [*usual, thanks])[-1].text


@pytest.mark.parametrize(
    ("place", "ask"),
    [("local", awhole), ("local", astreamed), ("server", streamed), ("server", astreamed)],
    indirect=["place"],
)
@pytest.mark.parametrize("drafts", [[], [ROME]])
def test_other_calls_are_the_agents(place: Any, ask: Ask, weather: BaseTool, drafts: list[ToolCall]) -> None:
    message = ask(place, place.speculating(ScriptedSpeculator(drafts)).bind_tools([weather]))
    usual = ask(place, place.chat().bind_tools([weather]))
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [(OSLO.name, OSLO.arguments)]
    assert (message.content, message.text) == ([], usual.text)
    if isinstance(place, Remote):
        assert message.response_metadata == usual.response_metadata


@pytest.mark.parametrize("ask", [streamed, astreamed])
@pytest.mark.parametrize("tool_cache", [False, True])
@pytest.mark.usefixtures("without_tool_cache")
def test_an_endpoint_without_one_answers_as_ever(
    server: Remote, start_engine: Callable[[], None], ask: Ask, tool_cache: bool
) -> None:
    """Algorithm 2, and not a word about it."""

    @speculable
    @tool("get_weather")
    def weather(city: str) -> str:
        """Current weather in a city."""
        if not tool_cache:
            start_engine()
        return RESULT

    chat = server.speculating(ScriptedSpeculator([OSLO], [OSLO]), tool_cache=tool_cache)
    bound = chat.bind_tools([weather])
    (call,) = ask(server, bound).tool_calls
    assert weather.invoke(call).content == RESULT
    assert (report_of(chat).total.claims, report_of(chat).total.misses) == (1, 0)
    # Once that is known, a call streams as it is written.
    pieces = [chunk for chunk in bound.stream([QUESTION]) if chunk.tool_call_chunks]
    assert len(pieces) > 1


@pytest.mark.parametrize(("place", "ask"), [("local", awhole), ("server", streamed)], indirect=["place"])
def test_results_that_must_pass_through_the_graph_are_not_submitted(
    place: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToolOutputs, "put", None)
    direct = speculable(get_weather.model_copy(update={"return_direct": True}))
    chat = place.speculating(ScriptedSpeculator([OSLO]))
    assert len(ask(place, chat.bind_tools([direct])).tool_calls) == 1


@pytest.mark.parametrize("ask", [awhole, astreamed])
def test_without_the_tool_cache_nothing_is_submitted(
    local: Local, weather: BaseTool, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr(ToolOutputs, "put", None)
    chat = local.speculating(ScriptedSpeculator([OSLO]), tool_cache=False)
    assert len(ask(local, chat.bind_tools([weather])).tool_calls) == 1


@ways
@pytest.mark.parametrize("tool_cache", [False, True])
def test_a_priority_reaches_the_runtime(
    exact_runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch, ask: Ask, tool_cache: bool
) -> None:
    served: list[Priority] = []
    process = exact_runtime._input_processor.process

    def spy(*args: Any, **options: Any) -> Any:
        request = process(*args, **options)
        served.append(request.priority)
        return request

    monkeypatch.setattr(exact_runtime._input_processor, "process", spy)
    chat = ChatAgentRT(runtime=exact_runtime, max_tokens=2, tool_cache=tool_cache)
    for value in Priority:
        with priority(value):
            ask(chat, [QUESTION])
    assert served == list(Priority)


def test_to_langchain_it_is_the_same_model(server: Remote) -> None:
    given = server.chat()
    chat = speculate(given, ScriptedSpeculator(), tool_cache=True)
    assert isinstance(chat, ChatOpenAI)
    assert dumpd(chat) == dumpd(given)
    assert chat._get_llm_string() == given._get_llm_string()
    assert chat._get_ls_params() == given._get_ls_params()


def test_other_models_do_not_submit(local: Local) -> None:
    with pytest.raises(ConfigurationError, match="its own tool_cache"):
        speculate(local.chat(), ScriptedSpeculator(), tool_cache=True)


# The same answers.


class Place(BaseModel):
    """A place that somebody asks about."""

    city: str = Field(description="its name")


def answered(message: Any) -> tuple[Any, ...]:
    """Return what two models say alike."""
    metadata, calls = message.response_metadata, [(call["name"], call["args"]) for call in message.tool_calls]
    logged = (metadata.get("logprobs") or {}).get("content") or ()
    logged = [(each["token"], len(each["top_logprobs"])) for each in logged]
    total = message.usage_metadata["total_tokens"]
    return message.text, calls, total, metadata["model_name"], metadata["finish_reason"], logged


def alike(local: Local, server: Remote, ask: Ask, **fields: Any) -> Any:
    """Return what both say to ``ask``."""
    there, here = ask(server.chat(**fields)), ask(local.chat(**fields))
    assert there == here
    return there


OPTIONS: list[dict[str, Any]] = [
    {},
    {"stop": ["help"]},
    {"temperature": 1.5, "seed": 7},
    {"temperature": 1.0, "top_p": 0.5, "seed": 7},
    {"logprobs": True, "top_logprobs": 2},
    {"frequency_penalty": 1.0, "presence_penalty": 0.5},
    {"logit_bias": {5: 50}},
]


@pytest.mark.parametrize("fields", OPTIONS, ids=lambda fields: "-".join(fields))
def test_the_same_options_give_the_same_answer(local: Local, server: Remote, fields: dict[str, Any]) -> None:
    *_, logged = alike(local, server, lambda chat: answered(chat.invoke(HELLO)), **fields)
    assert bool(logged) is ("logprobs" in fields)
    usage: Any = {"stream_usage": True}
    alike(local, server, lambda chat: answered(joined(chat.stream(HELLO, **usage))), **fields)


def test_several_answers_are_alike(local: Local, server: Remote) -> None:
    def ask(chat: Any) -> Any:
        (found,) = chat.generate([HELLO]).generations
        return [(each.text, each.message.usage_metadata["total_tokens"]) for each in found]

    assert len(alike(local, server, ask, n=3, temperature=2.0, seed=7)) == 3


def test_usage_callbacks_count_both_under_one_name(local: Local, server: Remote) -> None:
    with get_usage_metadata_callback() as counted:
        answers = [server.chat().invoke(HELLO), local.chat().invoke(HELLO)]
    totals = sum(answer.usage_metadata["total_tokens"] for answer in answers)
    assert {name: usage["total_tokens"] for name, usage in counted.usage_metadata.items()} == {"nano": totals}


BOUND: list[dict[str, Any]] = [
    *({}, {"strict": True}, {"parallel_tool_calls": False}, {"tool_choice": "any"}, {"tool_choice": True}),
    *({"tool_choice": "get_weather"}, {"tool_choice": "none"}),
]


@pytest.mark.parametrize("options", BOUND, ids=str)
def test_tools_are_bound_alike(local: Local, server: Remote, options: dict[str, Any]) -> None:
    def ask(chat: Any) -> Any:
        # The server, as OpenAI, ends an answer whose call was forced with "stop".
        return answered(chat.bind_tools([get_weather], **options).invoke([QUESTION]))[:3]

    _, calls, _ = alike(local, server, ask)
    assert bool(calls) is (options.get("tool_choice") != "none")


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_structured_output_is_alike(local: Local, server: Remote, method: str) -> None:
    # ChatOpenAI always asks for a Pydantic class strictly.
    given: dict[str, Any] = {"method": method, "strict": True}

    def ask(chat: Any) -> Any:
        raw = chat.with_structured_output(Place, include_raw=True, **given).invoke([QUESTION])
        value = chat.with_structured_output(Place, **given).invoke([QUESTION])
        assert raw["parsed"] == value
        return value

    found = alike(local, server, ask, stop=["zzz"])
    assert isinstance(found, Place)
    if method == "function_calling":
        assert found == Place(city="Oslo")


def test_errors_have_the_same_classes(local: Local, server: Remote) -> None:
    for place in (local, server):
        with pytest.raises(ContextOverflowError):
            place.chat().invoke("word " * 100_000)
        with pytest.raises(ModelInvalidRequestError):
            place.chat().invoke(HELLO, temperature=-1)
