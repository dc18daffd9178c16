"""Background responses from LangChain and LangGraph: of the runtime in this process, and of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from openai import APIConnectionError

import agentrt.adapters.langchain.chat_model.background as background_module
from agentrt.adapters.langchain import BackgroundModel, ChatAgentRT
from agentrt.errors import ConfigurationError, InvalidRequestError, JobFailedError
from agentrt.runtime import (
    BackgroundConditions,
    BackgroundConfig,
    BackgroundService,
    LocalRuntime,
    RuntimeConfig,
)
from tests.adapters.langchain.chats import HELLO, QUESTION, SYSTEM, get_weather
from tests.patience import in_event_loop
from tests.runtime.serving.server.conftest import running

pytestmark = [pytest.mark.real_model, pytest.mark.socket]

ANY_LOAD = BackgroundConfig(conditions=BackgroundConditions(max_other_load=None))
Opened = AbstractAsyncContextManager[tuple[Any, BackgroundService | None]]


@asynccontextmanager
async def in_process(chat: ChatAgentRT) -> AsyncIterator[tuple[Any, BackgroundService | None]]:
    async with BackgroundService(chat.runtime, ANY_LOAD) as service:
        yield chat, service


@asynccontextmanager
async def at_a_server(chat: ChatAgentRT) -> AsyncIterator[tuple[Any, BackgroundService | None]]:
    with running(chat.runtime) as server:
        client: Any = ChatOpenAI(model="nano", base_url=f"{server.url}/v1", api_key="none", max_tokens=64)  # type: ignore[arg-type, call-arg]
        yield client, None
        await client.root_async_client.close()


@pytest.fixture(params=[in_process, at_a_server])
def opened(request: pytest.FixtureRequest, chat: ChatAgentRT) -> Opened:
    """A chat model and, where it is of the runtime in this process, the service of its background work."""
    return request.param(chat)  # type: ignore[no-any-return]


@in_event_loop
async def test_a_run_has_the_answer_of_the_foreground(chat: ChatAgentRT, opened: Opened) -> None:
    async with opened as (model, service):
        background = BackgroundModel(model, service)
        run = await background.submit(HELLO)
        found = await background.get(run.id)
        assert found is not None
        answer, expected = await found.result(), chat.invoke(HELLO)
        assert (answer.content, answer.usage_metadata["output_tokens"]) == (  # type: ignore[index]
            expected.content,
            expected.usage_metadata["output_tokens"],  # type: ignore[index]
        )
        assert answer.response_metadata["finish_reason"] == expected.response_metadata["finish_reason"]
        calling = BackgroundModel(model.bind_tools([get_weather]), service)
        message = await (await calling.submit([SYSTEM, QUESTION])).result()
        asked = chat.bind_tools([get_weather]).invoke([SYSTEM, QUESTION])
        assert [(each["name"], each["args"]) for each in message.tool_calls] == [
            (each["name"], each["args"]) for each in asked.tool_calls
        ]
        long = await background.submit(HELLO, stop=["never"])
        await long.cancel()
        assert (await long.result()).response_metadata["finish_reason"] == "cancelled"
        await long.delete()
        assert await background.get(long.id) is None


class State(TypedDict, total=False):
    """What the digest graph knows."""

    mail: str
    run: str
    digest: str


@in_event_loop
async def test_a_graph_waits_in_the_background_while_a_question_is_answered(chat: ChatAgentRT) -> None:
    """It is cancelled while it waits, and takes the same run when it goes on."""
    async with BackgroundService(chat.runtime, ANY_LOAD) as service:
        background = BackgroundModel(chat.bind(ignore_eos=True, max_tokens=600), service)

        submitted = asyncio.Event()

        async def submit(state: State) -> State:
            run = await background.submit(f"Summarise this mail: {state['mail']}")
            submitted.set()
            return {"run": run.id}

        async def collect(state: State) -> State:
            run = await background.get(state["run"])
            assert run is not None
            return {"digest": (await run.result()).text}

        builder = StateGraph(State).add_node("submit", submit).add_node("collect", collect)
        graph: Any = builder.add_edge(START, "submit").add_edge("submit", "collect").compile(InMemorySaver())
        thread = {"configurable": {"thread_id": "digest"}}
        first = asyncio.create_task(graph.ainvoke({"mail": "The meeting is on Friday."}, thread))
        await submitted.wait()
        (job,) = await service.jobs()
        await anext(event async for event in job.events() if event["type"].endswith(".delta"))
        answer = await chat.bind(max_tokens=4).ainvoke(HELLO)
        assert isinstance(answer, AIMessage)
        assert job.status == "in_progress", "the question did not wait for it"
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await graph.ainvoke(None, thread))["digest"]
        (same,) = await service.jobs()
        assert (same.id, same.status) == (job.id, "incomplete")


@in_event_loop
async def test_what_cannot_be_submitted_is_refused(chat: ChatAgentRT) -> None:
    with pytest.raises(ConfigurationError, match="needs the BackgroundService"):
        BackgroundModel(chat)
    async with BackgroundService(chat.runtime, ANY_LOAD) as service:
        with pytest.raises(ConfigurationError, match="has no background"):
            BackgroundModel(chat | str, service)  # type: ignore[arg-type]
        background = BackgroundModel(chat, service)
        with pytest.raises(InvalidRequestError, match="n: 2"):
            await background.submit("Hello!", n=2)
        with pytest.raises(InvalidRequestError, match="deadline_s"):
            await background.submit("Hello!", timeout=3.0)
        run = await background.submit("Hello!")
        job = service.queue.table.get("local", run.id)
        assert job is not None
        await service.queue.cancel(job)
        assert job.result is not None
        error = {"code": "server_error", "message": "it has not ended. Send it again."}
        job.result = {**job.result, "status": "failed", "error": error}
        with pytest.raises(JobFailedError, match="Send it again"):
            await run.result()


@in_event_loop
async def test_options_of_a_request_are_those_of_the_foreground(chat: ChatAgentRT, opened: Opened) -> None:
    async with opened as (model, service):

        async def tokens(background: BackgroundModel, **options: Any) -> int:
            answer = await (await background.submit(HELLO, **options)).result()
            assert answer.usage_metadata is not None
            return answer.usage_metadata["output_tokens"]

        background = BackgroundModel(model.bind(ignore_eos=True, stream=True), service)
        assert await tokens(background, max_tokens=10) == 10
        bound = BackgroundModel(model.bind(ignore_eos=True, max_tokens=9), service)
        assert (await tokens(bound), await tokens(bound, max_tokens=8)) == (9, 8)
        stopped = await (await background.submit(HELLO, max_tokens=20)).result()
        word = stopped.text.split()[1]
        assert word not in (await (await background.submit(HELLO, max_tokens=20, stop=[word])).result()).text
        calling = await background.submit(
            [SYSTEM, QUESTION], tools=[get_weather], tool_seconds={"get_weather": 2.0}, ignore_eos=False
        )
        assert (await calling.result()).tool_calls
        for name, value in {"n": 2, "priority": 0, "unknown": 1, "logit_bias": {"5": 1.0}}.items():
            with pytest.raises(InvalidRequestError, match=name):
                await background.submit(HELLO, **{name: value})


@in_event_loop
async def test_a_run_that_was_deleted_says_so(chat: ChatAgentRT, opened: Opened) -> None:
    async with opened as (model, service):
        run = await BackgroundModel(model, service).submit(HELLO, ignore_eos=True)
        await run.delete()
        await run.cancel()
        await run.delete()
        for read in (run.response, run.result):
            with pytest.raises(JobFailedError, match="submit it again"):
                await read()


@in_event_loop
async def test_who_waits_does_not_notice_that_the_server_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "_LOOK_S", 0.05)
    monkeypatch.setattr(background_module, "_LONGEST_PAUSE_S", 0.1)
    config = RuntimeConfig(context_folder=tmp_path, memory_bytes=32 * 2**20)
    never = BackgroundConfig(conditions=BackgroundConditions(max_other_load=1e-9))
    with LocalRuntime.open("nano", config) as runtime:
        with running(runtime, background=never) as server:
            address: Any = {"base_url": f"{server.url}/v1", "api_key": "none", "max_retries": 0}
            client: Any = ChatOpenAI(model="nano", max_tokens=6, **address)
            run = await BackgroundModel(client).submit(HELLO)
            waiting = asyncio.create_task(run.result())
            await asyncio.sleep(0)
            port = int(server.url.rpartition(":")[2])
        for _ in range(3):
            await asyncio.sleep(0.1)
        assert not waiting.done()
        with running(runtime, port=port):
            assert (await waiting).text
        monkeypatch.setattr(background_module, "_PATIENCE_S", 0.2)
        with pytest.raises(APIConnectionError):
            await run.result()
        await client.root_async_client.close()
