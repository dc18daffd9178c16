"""An agent of the Agents SDK claims each call that was run speculatively; its transcript stays the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from agents import (
    ModelSettings,
    RunConfig,
    RunHooks,
    Runner,
    SQLiteSession,
    TracingProcessor,
    custom_span,
    function_tool,
    get_current_span,
    set_trace_processors,
)
from agents.models.interface import Model
from agents.testing import ScriptedModel
from agents.tracing import get_trace_provider

from agentrt import SpeculationConfig, ToolCall, run_scope, speculable
from agentrt.adapters.openai_agents import report_of, speculate
from agentrt.config import TurnAhead
from agentrt.errors import ConfigurationError
from agentrt.speculators import StreamSpeculator
from tests.adapters.openai_agents.doubles import (
    SILENT,
    STREAMED,
    ByUser,
    Drafts,
    Runs,
    Trial,
    agent,
    calling,
    compared,
    declared_look,
    look,
    look_tool,
    model,
    outputs,
    run,
    saying,
    transcript,
)
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("prediction_is_free")]

KINDS = pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])


@STREAMED
@KINDS
def test_each_call_runs_once_and_the_transcript_is_the_plain_one(streamed: bool, is_async: bool) -> None:
    async def main(trial: Trial) -> Any:
        calls = [look(str(turn)) for turn in range(3)]
        steps = [calling(call, after=trial.until(str(turn))) for turn, call in enumerate(calls)]
        chat = trial.model(*steps, saying(), drafts=[[call] for call in calls])
        tool = trial.tool(look_tool(trial.runs, is_async=is_async))
        result = await run(agent(chat, tool), streamed=streamed)
        if trial.speculates:
            total = report_of(chat).total
            assert (total.claims, total.misses, total.unclaimed, total.wasted) == (3, 0, 0, 0)
        assert result.final_output == "done"
        return transcript(result)

    _, trial = compared(main)
    assert trial.runs.made == ["0", "1", "2"]


@pytest.fixture
def loop_of_the_thread() -> Iterator[None]:
    """``run_sync`` runs on this loop, and leaves it open for further runs."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    asyncio.set_event_loop(None)


@pytest.mark.usefixtures("loop_of_the_thread")
def test_run_sync() -> None:
    runs = Runs()
    chat = speculate(model(calling(look("a"), after=runs.until("a")), saying()), Drafts([look("a")]))

    result = Runner.run_sync(agent(chat, declared_look(runs)), "hi", run_config=SILENT)

    assert outputs(result) == ["found a"]
    assert runs.made == ["a"]
    assert report_of(chat).total.claims == 1


@STREAMED
def test_parallel_calls_of_one_answer(streamed: bool) -> None:
    runs = Runs()
    drafts = Drafts([look("a"), look("b"), look("x")])
    step = calling(look("b"), look("c"), look("a"), after=runs.until("a", "b", "x"))
    chat = speculate(model(step, saying()), drafts)

    result = asyncio.run(run(agent(chat, declared_look(runs)), streamed=streamed))

    assert outputs(result) == ["found b", "found c", "found a"]
    assert sorted(runs.made) == ["a", "b", "c", "x"]
    total = report_of(chat).total
    assert (total.claims, total.misses, total.wasted) == (2, 1, 1)


def look_with_limit(runs: Runs) -> Any:
    @speculable
    @function_tool(strict_mode=False)
    def look(q: str, limit: int = 3) -> str:
        return runs.note(q)

    return look


@pytest.mark.parametrize(
    ("settings", "draft"),
    [
        ({}, ToolCall("look", {"limit": 3, "q": "a"})),  # a default is the same call
        ({"tool_use_behavior": "stop_on_first_tool"}, look("a")),
        ({"tool_use_behavior": {"stop_at_tool_names": ["look"]}}, look("a")),
        # With a time limit of the model, the SDK sends the request in a task of its own.
        ({"model_settings": ModelSettings(timeout=60.0)}, look("a")),
    ],
    ids=["default", "stop on first", "stop at names", "time limit"],
)
@STREAMED
@pytest.mark.parametrize("scope", [None, "user 7"])
def test_one_call_is_claimed(settings: Any, draft: ToolCall, streamed: bool, scope: str | None) -> None:
    runs = Runs()
    chat = speculate(model(calling(look("a"), after=runs.until("a")), saying()), Drafts([draft]))

    with nullcontext() if scope is None else run_scope(scope):
        result = asyncio.run(run(agent(chat, look_with_limit(runs), **settings), streamed=streamed))

    assert result.final_output == ("found a" if "tool_use_behavior" in settings else "done")
    assert runs.made == ["a"]
    assert report_of(chat).total.claims == 1


def test_predictors_get_the_request_as_chat_messages_and_function_tools() -> None:
    runs = Runs()
    drafts = Drafts()
    chat = speculate(model(calling(look("a")), saying(after=drafts.until_asked)), drafts)

    helper = agent(model(), name="helper")
    asyncio.run(run(agent(chat, look_with_limit(runs), instructions="Look.", handoffs=[helper])))

    last = drafts.requests[1]
    assert [message["role"] for message in last.messages] == ["system", "user", "assistant", "tool"]
    assert last.messages[0]["content"] == "Look."
    assert last.messages[3]["content"] == "found a"
    schema, handoff = last.tools
    assert handoff["function"]["name"] == "transfer_to_helper"
    assert schema["function"]["name"] == "look"
    assert set(schema["function"]["parameters"]["properties"]) == {"q", "limit"}


def test_a_call_starts_as_soon_as_it_is_complete_in_the_stream() -> None:
    runs = Runs()

    class Slow(ScriptedModel):
        """Ends an answer with calls when the first of them has been run."""

        async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for event in super().stream_response(*args, **kwargs):
                if event.type == "response.completed" and event.response.output[0].type == "function_call":
                    await runs.until("a")()
                yield event

    chat = speculate(Slow([calling(look("a"), look("b")), saying()]), StreamSpeculator())

    asyncio.run(run(agent(chat, declared_look(runs)), streamed=True))

    assert sorted(runs.made) == ["a", "b"]
    assert report_of(chat).total.claims == 2


@STREAMED
def test_hooks_are_called_once_for_each_call(streamed: bool) -> None:
    class Recorder(RunHooks[Any]):
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            self.seen.append(f"start {tool.name} {context.tool_call_id}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
            self.seen.append(f"end {tool.name} {result}")

    runs, hooks = Runs(), Recorder()
    step = calling(ToolCall("look", {"q": "a"}, "call_a"), after=runs.until("a", "x"))
    chat = speculate(model(step, saying()), Drafts([look("a"), look("x")]))

    asyncio.run(run(agent(chat, declared_look(runs)), streamed=streamed, hooks=hooks))

    assert hooks.seen == ["start look call_a", "end look found a"]


def test_sessions_hold_the_same_items() -> None:
    async def main(trial: Trial) -> Any:
        steps = (
            *(calling(look("a"), after=trial.until("a")), saying("A")),
            *(calling(look("b"), after=trial.until("b")), saying("B")),
        )
        chat = trial.model(*steps, drafts=[[look("a")], [], [look("b")]])
        session = SQLiteSession("conversation")
        for question in ("first", "second"):
            await run(agent(chat, trial.tool(look_tool(trial.runs))), input=question, session=session)
        found = await session.get_items()
        session.close()
        return found

    _, trial = compared(main)
    assert trial.runs.made == ["a", "b"]


@STREAMED
def test_without_the_run_and_its_context_the_id_tells_the_call(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a time limit of the model in a version of the SDK that does not show its runs."""
    monkeypatch.setattr("agentrt.adapters.openai_agents.runs._run_variable", lambda: None)
    runs = Runs()
    chat = speculate(
        model(calling(look("a")), calling(look("b"), after=runs.until("b")), saying()),
        Drafts([], [look("b")]),
    )
    limited = agent(chat, declared_look(runs), model_settings=ModelSettings(timeout=60.0))

    asyncio.run(run(limited, streamed=streamed))

    assert runs.made == ["a", "b"]
    assert report_of(chat).total.claims == 1


@STREAMED
async def test_runs_at_one_time_claim_their_own_although_the_ids_are_equal(streamed: bool) -> None:
    runs = Runs()
    tool = declared_look(runs)

    names = [str(number) for number in range(8)]
    until_all = runs.until(*names)  # all answers come when all tools have been run
    predictor = ByUser(look)
    chats = {
        name: speculate(
            model(calling(ToolCall("look", {"q": name}, "call_0"), after=until_all), saying()), predictor
        )
        for name in names
    }
    results = await asyncio.gather(
        *(run(agent(chats[name], tool), streamed=streamed, input=name) for name in names)
    )
    assert [outputs(result) for result in results] == [[f"found {name}"] for name in names]
    assert sum(report_of(chat).total.claims for chat in chats.values()) == len(names)
    assert len(runs.made) == 8


class Spans(TracingProcessor):
    """Notes the spans that end, in order."""

    def __init__(self) -> None:
        self.spans: list[str] = []

    def on_span_end(self, span: Any) -> None:
        exported = span.span_data.export()
        self.spans.append(f"{exported['type']} {exported.get('name')} {exported.get('output')}")

    def on_span_start(self, span: Any) -> None: ...
    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


@contextmanager
def recording() -> Iterator[Spans]:
    provider: Any = get_trace_provider()
    before = provider._multi_processor._processors
    recorder = Spans()
    set_trace_processors([recorder])
    try:
        yield recorder
    finally:
        set_trace_processors(list(before))


@STREAMED
def test_spans(streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    around: list[str] = []

    async def spans(speculates: bool) -> list[str]:
        runs = Runs()
        around.clear()

        @function_tool(name_override="look")
        async def find(q: str) -> str:
            span = get_current_span()
            around.append("none" if span is None else span.span_data.type)
            with custom_span("inside"):
                return runs.note(q)

        after = runs.until("a", "x") if speculates else None
        chat: Model = model(calling(look("a"), look("b"), after=after), saying())
        tool: Any = find
        if speculates:
            chat, tool = speculate(chat, Drafts([look("a"), look("x")])), speculable(tool)
        with recording() as recorder:
            await run(agent(chat, tool), streamed=streamed, run_config=RunConfig())
        return recorder.spans

    plain = asyncio.run(spans(speculates=False))
    assert around == ["function", "function"]
    speculative = asyncio.run(spans(speculates=True))
    assert sorted(around) == ["function", "none", "none"]

    # The spans that the function makes are those of the call that ran it.
    assert plain.count("custom inside None") == 2
    assert speculative.count("custom inside None") == 1
    calls = [span for span in plain if span.startswith("function")]
    assert sorted(calls) == sorted(span for span in speculative if span.startswith("function"))
    assert "No active trace" not in caplog.text


def test_an_error_of_the_model_drops_its_speculations() -> None:
    runs = Runs()

    async def fail() -> None:
        await runs.until("a")()
        raise RuntimeError("the endpoint is down")

    chat = speculate(model(calling(look("a"), after=fail)), Drafts([look("a")]))

    with pytest.raises(RuntimeError, match="the endpoint is down"):
        asyncio.run(run(agent(chat, declared_look(runs))))

    assert report_of(chat).total.wasted == 1


@STREAMED
async def test_a_cancelled_run_leaves_nothing_running(streamed: bool) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @speculable
    @function_tool
    async def look(q: str) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return q

    async def forever() -> None:
        await asyncio.Event().wait()

    chat = speculate(model(saying(after=forever)), Drafts([ToolCall("look", {"q": "a"})]))

    task = asyncio.create_task(run(agent(chat, look), streamed=streamed))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(stopped.wait(), PATIENCE_S)
    assert report_of(chat).total.wasted == 1


def test_a_speculating_model_is_the_model_under_another_class() -> None:
    plain = model(saying())
    chat = speculate(plain, Drafts())

    assert isinstance(chat, ScriptedModel)
    assert type(chat).__name__ == "ScriptedModel"
    assert chat.__dict__ is plain.__dict__
    assert not hasattr(plain, "_agentrt_state")
    assert report_of(speculate(chat, Drafts())) is not None  # a second time: with a state of its own


def test_wrong_arguments() -> None:
    with pytest.raises(ConfigurationError, match=r"model: an object of type str.*MultiProvider"):
        speculate("gpt-5", Drafts())  # type: ignore[type-var]
    with pytest.raises(ConfigurationError, match="at least one predictor"):
        speculate(model(), [])
    with pytest.raises(ConfigurationError, match="turn_ahead is not supported"):
        speculate(model(), Drafts(), config=SpeculationConfig(turn_ahead=TurnAhead()))
    with pytest.raises(ConfigurationError, match=r"does not speculate.*speculate\(\) first"):
        report_of(model())
