"""Background responses from LangChain and LangGraph: of the runtime in this process, and of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from agentrt.adapters.langchain import BackgroundModel, ChatAgentRT
from agentrt.errors import ConfigurationError, InvalidRequestError, JobFailedError
from agentrt.runtime import BackgroundConditions, BackgroundConfig, BackgroundService
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


@pytest.mark.parametrize("opened", [in_process, at_a_server])
@in_event_loop
async def test_a_run_has_the_answer_of_the_foreground(
    chat: ChatAgentRT, opened: Callable[[ChatAgentRT], Opened]
) -> None:
    async with opened(chat) as (model, service):
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
