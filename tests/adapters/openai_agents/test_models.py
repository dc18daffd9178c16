"""Models of the Agents SDK on an endpoint, and providers that make them by name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from collections.abc import Callable

from agents import (
    Agent,
    ModelResponse,
    ModelSettings,
    MultiProvider,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)
from agents.models.interface import Model
from agents.testing import ScriptedModel
from agents.usage import Usage
from openai import AsyncOpenAI
from openai.types.responses import ResponseCreatedEvent

from agentrt import ToolCall, speculable
from agentrt.adapters.openai_agents import report_of, speculate
from agentrt.testing import run_in_virtual_time
from tests.adapters.openai.doubles import Endpoint
from tests.adapters.openai_agents.doubles import (
    STREAMED,
    Drafts,
    Provider,
    Runs,
    agent,
    calling,
    declared_look,
    look,
    look_tool,
    model,
    outputs,
    run,
    saying,
    transcript,
)
from tests.adapters.stainless.doubles import Script
from tests.runtime.serving.http.serving import Running

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("prediction_is_free", "no_thread_at_the_first_request"),
]

APIS = pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
SCRIPT: Script = [[("look", {"q": "a"})], [("look", {"q": "b"}), ("look", {"q": "c"})]]
DRAFTS = [look("a")], [look("b"), look("x")]


def slow_look(runs: Runs) -> Any:
    @function_tool
    async def look(q: str) -> str:
        """Look something up."""
        await asyncio.sleep(1)
        return runs.note(q)

    return look


@STREAMED
@APIS
def test_an_endpoint_gets_the_same_requests(kind: Any, streamed: bool) -> None:
    async def main(speculates: bool) -> Any:
        runs, endpoint = Runs(), Endpoint(SCRIPT, delay=1)
        async with endpoint.async_client() as client:
            chat: Model = kind(model="m", openai_client=client)
            tool = slow_look(runs)
            if speculates:
                chat, tool = speculate(chat, Drafts(*DRAFTS)), speculable(tool)
            assert type(chat).__name__ == kind.__name__
            assert isinstance(chat, kind)
            began = asyncio.get_running_loop().time()
            result = await run(agent(chat, tool), streamed=streamed)
            took = asyncio.get_running_loop().time() - began
        total = report_of(chat).total if speculates else None
        return transcript(result), endpoint.requests, sorted({*runs.made} - {"x"}), took, total

    *plain, plain_s, _ = run_in_virtual_time(lambda: main(speculates=False))
    *speculative, speculative_s, total = run_in_virtual_time(lambda: main(speculates=True))

    assert speculative == plain
    assert (total.claims, total.misses, total.wasted) == (2, 1, 1)
    assert plain_s == pytest.approx(5)
    assert speculative_s == pytest.approx(4)  # c was not drafted


@STREAMED
def test_a_conversation_that_the_server_keeps(streamed: bool) -> None:
    """With ``auto_previous_response_id`` a request has only the new items; predictors get all of them."""

    async def main() -> None:
        runs, drafts, endpoint = Runs(), Drafts(*DRAFTS), Endpoint(SCRIPT, delay=1)
        async with endpoint.async_client() as client:
            chat = speculate(OpenAIResponsesModel("m", client), drafts)
            result = await run(
                agent(chat, speculable(slow_look(runs))), streamed=streamed, auto_previous_response_id=True
            )
        assert outputs(result) == ["found a", "found b", "found c"]
        assert [len(request["input"]) for request in endpoint.requests] == [1, 1, 2]
        roles = [message["role"] for message in drafts.requests[2].messages]
        assert roles == ["user", "assistant", "tool", "assistant", "tool", "tool"]

    run_in_virtual_time(main)


def test_a_provider_of_models_by_name() -> None:
    async def main() -> None:
        runs, endpoint = Runs(), Endpoint(SCRIPT, delay=1)
        async with endpoint.async_client() as client:
            plain = OpenAIProvider(openai_client=client, use_responses=False)
            provider = speculate(plain, Drafts(*DRAFTS))
            config = RunConfig(model_provider=provider, tracing_disabled=True)
            named = agent("any-name", speculable(slow_look(runs)))
            result = await Runner.run(named, "hi", run_config=config)
        assert outputs(result) == ["found a", "found b", "found c"]
        assert report_of(provider).total.claims == 2
        assert isinstance(provider, OpenAIProvider)
        assert isinstance(provider.get_model("m"), OpenAIChatCompletionsModel)
        assert not hasattr(plain.get_model("m"), "_agentrt_state")

    run_in_virtual_time(main)


def test_the_default_provider() -> None:
    provider = speculate(MultiProvider(openai_api_key="none"), Drafts())

    assert isinstance(provider, MultiProvider)
    assert isinstance(provider.get_model("gpt-5"), OpenAIResponsesModel)
    assert report_of(provider.get_model("gpt-5")) == report_of(provider)


def test_a_model_that_speculates_by_itself_keeps_its_own_predictors() -> None:
    own = speculate(model(saying()), Drafts())

    assert speculate(Provider(any=own), Drafts()).get_model("any") is own


def test_a_request_without_speculable_tools_is_sent_unchanged() -> None:
    async def main() -> None:
        runs, drafts, endpoint = Runs(), Drafts(*DRAFTS), Endpoint(SCRIPT)
        async with endpoint.async_client() as client:
            chat = speculate(OpenAIChatCompletionsModel("m", client), drafts)
            await run(agent(chat, slow_look(runs)))
        assert drafts.requests == {}
        assert report_of(chat).turns == ()

    run_in_virtual_time(main)


async def test_answers_that_cannot_be_read_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    odd: Any = object()

    class Odd(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            return odd

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            return Events(odd)

    class Events:
        """An async iterator that cannot be closed."""

        def __init__(self, *events: Any) -> None:
            self._events = iter(events)

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> Any:
            for event in self._events:
                return event
            raise StopAsyncIteration

    chat: Any = speculate(Odd(), Drafts())
    arguments = request(declared_look(Runs()))

    assert await chat.get_response(**arguments) is odd
    assert [event async for event in chat.stream_response(**arguments)] == [odd]
    assert caplog.text.count("could not be read for its tool calls: AttributeError") == 2


def test_a_model_that_is_a_frozen_dataclass() -> None:
    @dataclass(frozen=True)
    class Named(Model):
        name: str

        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            return ModelResponse(output=[], usage=Usage(), response_id=self.name)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any: ...

    chat: Any = speculate(Named("m"), Drafts())

    assert asyncio.run(chat.get_response(**request())).response_id == "m"


def request(*tools: Any, **changes: Any) -> dict[str, Any]:
    """Return the arguments of a request."""
    return {
        **{"system_instructions": None, "input": "hi", "tools": list(tools), "output_schema": None},
        **{"handoffs": [], "tracing": None, "model_settings": ModelSettings()},
        **{"previous_response_id": None, "conversation_id": None, "prompt": None},
        **changes,
    }


@pytest.mark.parametrize("declared", [True, False], ids=["speculable", "plain"])
async def test_a_stream_that_is_left_is_closed(declared: bool) -> None:
    closed: list[str] = []

    class Endless(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any: ...

        async def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            try:
                while True:
                    yield ResponseCreatedEvent.model_construct(type="response.created")
            finally:
                closed.append("closed")

    chat: Any = speculate(Endless(), Drafts())
    events = chat.stream_response(**request(declared_look(Runs()) if declared else look_tool(Runs())))
    await anext(events)
    await events.aclose()
    assert closed == ["closed"]


def test_a_history_that_the_model_changes_stays_that_of_the_request_for_predictors() -> None:
    drafts = Drafts()

    class Greedy(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            kwargs["input"].clear()
            await drafts.until_asked()
            return ModelResponse(output=[], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any: ...

    chat: Any = speculate(Greedy(), drafts)
    history = [{"role": "user", "content": "hi"}]

    asyncio.run(chat.get_response(**request(declared_look(Runs()), input=history)))

    assert [message["content"] for message in drafts.requests[0].messages] == ["hi"]


def test_calls_that_the_last_event_leaves_out_are_made_and_claimed() -> None:
    runs = Runs()

    class Short(ScriptedModel):
        async def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            async for event in super().stream_response(*args, **kwargs):
                if event.type == "response.completed":
                    event.response.output = []
                yield event

    chat = speculate(Short([calling(look("a"), after=runs.until("a")), saying()]), Drafts([look("a")]))

    result = asyncio.run(run(agent(chat, declared_look(runs)), streamed=True))

    assert outputs(result) == ["found a"]
    assert report_of(chat).total.claims == 1


async def test_the_draft_of_another_tool_of_the_same_name_is_not_mixed_up() -> None:
    """Two agents of one run have different tools of one name: the second's is not run for the first's draft.

    In the history the second call is one that was made already, so that it is not drafted.
    """

    first, second = Runs(), Runs()

    chat = speculate(
        model(
            calling(look("a"), after=first.until("a")),
            calling(ToolCall("transfer_to_second", {}, "1")),
            calling(ToolCall("look", {"q": "a"}, "2")),
            saying(),
        ),
        Drafts([look("a")], [], [look("a")]),
    )
    other = Agent(name="second", model=chat, tools=[declared_look(second)])
    await run(Agent(name="first", model=chat, tools=[declared_look(first)], handoffs=[other]))
    assert (first.made, second.made) == (["a"], ["a"])
    assert report_of(chat).total.claims == 1


# On ``agentrt serve``.

QUESTION = "What is the weather in Ljubljana?"
GREEDY = ModelSettings(temperature=0, max_tokens=60)


@STREAMED
@APIS
def test_an_agent_on_the_local_server(
    server: Running, start_engine: Callable[[], None], kind: Any, streamed: bool
) -> None:
    runs = Runs()

    @function_tool
    async def get_weather(city: str) -> str:
        """Get the current weather in a city."""
        runs.note(city)
        start_engine()
        return '{"city": "Ljubljana", "degrees": 21, "sky": "clear"}'

    async def main(speculates: bool) -> tuple[list[str], str, int]:
        runs.made.clear()
        async with AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60
        ) as client:
            chat: Model = kind("nano", client)
            tool: Any = get_weather
            if speculates:
                draft = ToolCall("get_weather", {"city": "Ljubljana"})
                chat, tool = speculate(chat, Drafts([draft])), speculable(tool)
            result = await run(agent(chat, tool, model_settings=GREEDY), streamed=streamed, input=QUESTION)
        assert runs.made == ["Ljubljana"]
        return outputs(result), result.final_output, report_of(chat).total.claims if speculates else 0

    *speculative, claims = asyncio.run(main(speculates=True))  # the engine waits for the speculation
    *plain, _ = asyncio.run(main(speculates=False))

    assert speculative == plain
    assert claims == 1
