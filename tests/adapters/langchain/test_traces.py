"""What the user's callbacks, streams and traces see of speculation: nothing; and what a recorder sees."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langchain_core.tracers.context import collect_runs, register_configure_hook
from langgraph.config import get_stream_writer
from langsmith import Client
from langsmith.utils import get_env_var
from pydantic import Field

from agentrt import DraftRequest, SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import RunRecorder, report_of, speculate
from agentrt.reports.recording import Recording
from agentrt.testing import RecordedSpeculator, ScriptedSpeculator, replay, run_in_virtual_time
from tests.adapters.doubles import Calls, ScriptedChat
from tests.adapters.langchain.graphs import (
    BUILDERS,
    INPUT,
    ONE,
    THREE,
    Tracer,
    adrive,
    agent,
    async_tool,
    run,
)
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")


def test_callbacks_and_events_are_those_without_speculation() -> None:
    def run(model: Any) -> tuple[list[str], list[Any]]:
        tracer, events = Tracer(), list[Any]()

        async def main() -> None:
            app = agent(model, [async_tool(3, [])])
            async for event in app.astream_events(INPUT, {"callbacks": [tracer]}, version="v2"):
                events.append((event["event"], event["name"]))

        run_in_virtual_time(main)
        return tracer.seen, events

    plain = ScriptedChat(script=THREE, delay=5)
    assert run(speculate(plain, ScriptedChat(script=THREE, prefix="draft", delay=1))) == run(plain)


def test_a_speculation_does_not_see_the_users_callbacks() -> None:
    configs: list[Any] = []

    @speculable
    @tool
    async def look(q: str) -> str:
        """Look something up."""
        configs.append(var_child_runnable_config.get())
        await asyncio.sleep(1)
        return q

    run(agent(speculate(ScriptedChat(script=ONE, delay=5), ScriptedChat(script=ONE)), [look]))
    assert [set(config) for config in configs] == [{"configurable"}]


both = pytest.mark.parametrize("is_async", [False, True])


class Counted(ScriptedChat):
    """Reports ten tokens read and five written, under the model's prefix as its name."""

    def _begin(self, messages: list[Any]) -> AIMessage:
        message = super()._begin(messages)
        message.usage_metadata = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        message.response_metadata = {"model_name": self.prefix}
        return message


USER: ContextVar[str] = ContextVar("user", default="nobody")


class Seen:
    """What a tool that asks a model sees and does in each of its runs."""

    def __init__(self) -> None:
        self.users: list[str] = []
        self.has_run = threading.Event()

    def look_up(self, q: str) -> str:
        self.users.append(USER.get())
        RunnableLambda(lambda text: text).invoke(q)
        Counted(prefix="inner").invoke(q)
        self.has_run.set()
        return q


def looking(look: Callable[[str], str]) -> BaseTool:
    """Return a tool that sync and async agents run."""

    async def alook(q: str) -> str:
        return look(q)

    return speculable(StructuredTool.from_function(look, alook, name="look", description="Look it up."))


class Draft(Counted):
    """Lets a test wait for its requests."""

    prefix: str = "draft"
    requests: Any = Field(default_factory=lambda: threading.Semaphore(0))

    def _begin(self, messages: list[Any]) -> AIMessage:
        self.requests.release()
        return super()._begin(messages)


class Last(Counted):
    """Answers when its draft has been asked and the tool has run: what they report comes in time."""

    draft: Any
    seen: Any

    def _wait(self) -> None:
        assert self.draft.requests.acquire(timeout=PATIENCE_S)
        assert self.seen.has_run.wait(PATIENCE_S)

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        self._wait()
        return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.to_thread(self._wait)
        return await super()._agenerate(*args, **kwargs)


def one_call_model(seen: Seen, *, right: bool = True) -> Any:
    """Return a speculating model that calls ``look`` once, beside a draft model."""
    draft = Draft(script=[[("look", {"q": "q0" if right else "another"})]])
    return speculate(Last(script=[[("look", {"q": "q0"})]], draft=draft, seen=seen), draft)


def run_beside_drafts(seen: Seen, *, is_async: bool, right: bool, **config: Any) -> Any:
    """Run one call of ``look`` beside a draft model; return the speculating model."""
    model = one_call_model(seen, right=right)
    app = agent(model, [looking(seen.look_up)])
    asyncio.run(app.ainvoke(INPUT, config)) if is_async else app.invoke(INPUT, config)
    return model


@both
def test_the_users_token_count_is_that_of_the_models_the_user_runs(is_async: bool) -> None:
    with get_usage_metadata_callback() as usage:
        model = run_beside_drafts(Seen(), is_async=is_async, right=False)
    assert report_of(model).total.wasted == 1
    # The wrong draft's run asked the inner model as well; only the real call's request is the user's.
    assert {name: counted["input_tokens"] for name, counted in usage.usage_metadata.items()} == {
        "main": 20,
        "inner": 10,
    }


@both
@pytest.mark.parametrize("right", [False, True])
def test_collected_runs_are_those_of_the_agent(is_async: bool, right: bool) -> None:
    with collect_runs() as collected:
        run_beside_drafts(Seen(), is_async=is_async, right=right)
    assert [run.name for run in collected.traced_runs] == ["Last", "look", "Last", "LangGraph"]


@both
def test_a_claimed_call_is_one_run_of_the_tool_in_the_users_callbacks(is_async: bool) -> None:
    tracer = Tracer()
    model = run_beside_drafts(Seen(), is_async=is_async, right=True, callbacks=[tracer])
    assert report_of(model).total.claims == 1
    assert [seen for seen in tracer.seen if seen.startswith("tool")] == ["tool {'q': 'q0'}", "tool end"]


@both
def test_a_speculation_sees_the_users_own_context_variables(is_async: bool) -> None:
    seen = Seen()
    token = USER.set("ada")
    try:
        run_beside_drafts(seen, is_async=is_async, right=False)
    finally:
        USER.reset(token)
    assert seen.users == ["ada", "ada"]


@both
def test_a_handler_of_a_registered_hook_sees_no_speculation(
    is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Tracer] = []

    class Hooked(Tracer):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr("langchain_core.tracers.context._configure_hooks", [])
    chosen: ContextVar[Tracer | None] = ContextVar("chosen", default=None)
    register_configure_hook(chosen, True)
    register_configure_hook(ContextVar("hooked", default=None), True, Hooked, "TRACE_BY_HOOK")
    monkeypatch.setenv("TRACE_BY_HOOK", "true")
    token = chosen.set(tracer := Tracer())
    try:
        run_beside_drafts(Seen(), is_async=is_async, right=True)
    finally:
        chosen.reset(token)
    assert tracer.seen.count("model") == 2
    assert sum(each.seen.count("model") for each in made) == 2


@both
def test_langsmith_traces_the_agent_and_no_speculation(
    is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced: list[str] = []
    tracer = "langchain_core.tracers.langchain"
    client = Client(api_key="unused", auto_batch_tracing=False)
    monkeypatch.setattr(f"{tracer}.get_client", lambda: client)
    monkeypatch.setattr("langsmith.run_trees.get_cached_client", lambda **_: client)
    monkeypatch.setattr(
        f"{tracer}.LangChainTracer._persist_run_single", lambda self, run: traced.append(run.name)
    )
    monkeypatch.setattr(f"{tracer}.LangChainTracer._update_run_single", lambda self, run: None)
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    get_env_var.cache_clear()
    try:
        run_beside_drafts(Seen(), is_async=is_async, right=True)
    finally:
        monkeypatch.undo()
        get_env_var.cache_clear()
    assert traced.count("LangGraph") == traced.count("look") == 1
    assert traced.count("Last") == 2
    assert not {"Draft", "Counted", "RunnableLambda"} & set(traced)


@both
def test_what_a_tool_writes_to_the_graphs_stream_arrives_once(is_async: bool) -> None:
    seen = Seen()

    def write(q: str) -> str:
        seen.has_run.set()
        get_stream_writer()(f"looking for {q}")
        return q

    app = agent(one_call_model(seen), [looking(write)])

    async def astream() -> list[Any]:
        return [piece async for piece in app.astream(INPUT, stream_mode="custom")]

    pieces = asyncio.run(astream()) if is_async else list(app.stream(INPUT, stream_mode="custom"))
    assert pieces == ["looking for q0"]


def test_a_session_inside_a_langchain_run_reports_nothing_of_its_speculation() -> None:
    """The predictor and the tool both ask a LangChain model; the session knows nothing of LangChain."""
    tracer = Tracer()
    model = ScriptedChat(script=[])

    class Predictor:
        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            await model.ainvoke("predict")
            yield ToolCall("look", {"q": "right"})
            yield ToolCall("look", {"q": "wrong"})

    @speculable
    async def look(q: str) -> str:
        return str((await model.ainvoke(q)).content)

    async def node(given: str) -> Any:
        async with SpeculationSession([look], [Predictor()]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([made := ToolCall("look", {"q": "right"}, "call_1")])
            return await session.acall(made), session.report().total

    with collect_runs() as collected:
        result, total = run_in_virtual_time(
            lambda: RunnableLambda(node).ainvoke("go", {"callbacks": [tracer]})
        )
    assert (result, total.claims, total.wasted) == ("done", 1, 1)
    assert tracer.seen == []
    assert len(collected.traced_runs) == 1
    assert collected.traced_runs[0].child_runs == []


# Recordings of runs, and their replays.

RECORDED: list[Calls] = [
    [("look", {"q": "a"}), ("save", {"q": "b"})],
    [("look", {"q": "a"})],
    [("look", {"q": "!"})],
]


def recorded_tools() -> list[BaseTool]:
    saved: list[str] = []

    @speculable(invalidated_by=["save"])
    @tool
    async def look(q: str) -> str:
        """Look something up."""
        if q == "!":
            raise ToolException("no such thing")
        return f"found {q} {saved}"

    @tool
    async def save(q: str) -> str:
        """Save something."""
        saved.append(q)
        return "saved"

    look.handle_tool_error = True
    return [look, save]


def record(build: Any, streamed: bool, speculative: bool) -> tuple[Recording, list[Any]]:
    recorder = RunRecorder()
    model: Any = ScriptedChat(script=RECORDED)
    if speculative:
        model = speculate(model, ScriptedSpeculator())
    app = build(model, recorded_tools())
    messages = asyncio.run(adrive(app.with_config(callbacks=[recorder]), streamed))
    return recorder.recording(), messages


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("speculative", [False, True])
def test_a_recorded_run_is_what_was_said_and_can_be_replayed(
    build: Any, streamed: bool, speculative: bool
) -> None:
    recording, messages = record(build, streamed, speculative)
    said = [message.text for message in messages if isinstance(message, AIMessage)]
    assert [turn.answer["content"] for turn in recording.turns] == said
    assert [[call.name for call in turn.calls] for turn in recording.turns[1:]] == [["look"], ["look"], []]
    assert sorted(call.name for call in recording.turns[0].calls) == ["look", "save"]
    assert recording.turns[1].calls[0].result == "found a ['b']"
    assert recording.turns[0].started_s == 0
    for turn, after in zip(recording.turns, recording.turns[1:], strict=False):
        answered_s, next_s = (turn.started_s or 0) + turn.seconds, after.started_s or 0
        assert all(answered_s <= (made.started_s or 0) + 1e-6 <= next_s + 2e-6 for made in turn.calls)
    for rate in (0.0, 0.5, 1.0):
        for seed in range(5):
            predictor = RecordedSpeculator(recording, claim_rate=rate, seed=seed)
            replayed = replay(recording, [predictor], writes=["save"], seed=seed)
            assert replayed.recording.transcript == recording.transcript
