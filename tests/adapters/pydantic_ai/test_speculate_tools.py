"""Agents of pydantic-ai with `SpeculateTools`: each call runs once and is claimed, in every kind of run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")

from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset

from agentrt import SpeculationConfig, ToolCall, speculable
from agentrt.adapters.pydantic_ai import SpeculateTools
from agentrt.config import TurnAhead
from agentrt.errors import ConfigurationError
from agentrt.speculators import StreamSpeculator
from agentrt.testing import ScriptedSpeculator
from tests.adapters.pydantic_ai.doubles import Oracle, Script, Speculating, transcript
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("prediction_is_free")]

TWO_CALLS = ([("look", {"q": "a"})], [("look", {"q": "b"})], "done")
DRAFT = ToolCall("look", {"q": "a"})
Drive = Callable[[Agent[None, str]], Coroutine[Any, Any, Any]]


async def run(agent: Agent[None, str]) -> Any:
    return await agent.run("go")


async def run_stream(agent: Agent[None, str]) -> Any:
    async with agent.run_stream("go") as streamed:
        await streamed.get_output()
        return streamed


async def run_stream_events(agent: Agent[None, str]) -> Any:
    async with agent.run_stream_events("go") as events:
        found = [event async for event in events]
    return found[-1].result  # type: ignore[union-attr]


async def iterate(agent: Agent[None, str]) -> Any:
    async with agent.iter("go") as steps:
        async for _ in steps:
            pass
    return steps.result


DRIVES: list[Drive] = [run, run_stream, run_stream_events, iterate]


def two_calls(**options: Any) -> Speculating:
    """Return an agent whose model makes each of two calls once its speculation has run."""
    return Speculating(*TWO_CALLS, until=("ran a", "ran b"), **options)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("drive", DRIVES)
async def test_each_call_runs_once_and_is_claimed(drive: Drive, is_async: bool) -> None:
    loop = asyncio.get_running_loop()
    trial = two_calls()

    def look(q: str) -> str:
        """Look something up."""
        loop.call_soon_threadsafe(trial.happenings.note, f"ran {q}")
        return f"found {q}"

    tool = trial.look if is_async else look
    plain = await drive(Agent(Script(*TWO_CALLS).model(), tools=[tool]))
    assert trial.runs == ["a", "b"]
    trial.happenings.seen.clear()

    result = await drive(trial.agent(tool))

    assert trial.runs == ["a", "b"]
    assert transcript(result.all_messages()) == transcript(plain.all_messages())
    assert result.usage == plain.usage
    total = trial.total
    assert (total.claims, total.misses, total.wasted) == (2, 0, 0), str(trial.speculation.report())


def look_up(q: str) -> str:
    """Look something up."""
    return q


@pytest.mark.parametrize("wrong", ["ALL", "look_up", [look_up], look_up, 3, None, {"look_up"}, dict, [3]])
def test_what_selects_no_tools_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^tools: .* selects no tools. Give a list of their names"):
        SpeculateTools(StreamSpeculator(), tools=wrong)


async def test_the_name_of_no_tool_is_refused_in_the_run() -> None:
    async def ask(names: list[str], **options: Any) -> None:
        speculation = SpeculateTools[None](StreamSpeculator(), tools=names)
        await Agent(Script("done").model(), capabilities=[speculation], **options).run("go")

    async def hidden(context: RunContext[None], definition: ToolDefinition) -> None:
        return None

    later = Tool(look_up, name="later", prepare=hidden)
    for options in ({"tools": [look_up]}, {"toolsets": [FunctionToolset([look_up])]}, {}):
        with pytest.raises(ConfigurationError, match=r"the agent has no tool 'look_pu'. Name some of"):
            await ask(["look_pu"], **options)
    await ask(["later", "look_up"], tools=[look_up, later])
    await ask(["a_look_up"], toolsets=[FunctionToolset([look_up]).prefixed("a")])
    await ask(["look_pu"], toolsets=[lambda context: FunctionToolset([look_up])])


@pytest.fixture
def loop_of_sync_runs() -> Iterator[None]:
    """The loop that ``run_sync`` uses, which it leaves open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("loop_of_sync_runs")
def test_run_sync() -> None:
    runs: list[str] = []
    ran = threading.Event()

    def look(q: str) -> str:
        runs.append(q)
        ran.set()
        return f"found {q}"

    async def until_speculated(turn: int) -> None:
        if turn == 0:
            assert await asyncio.to_thread(ran.wait, PATIENCE_S)

    script = Script([("look", {"q": "a"})], "done", before=until_speculated)
    speculation = SpeculateTools[None](Oracle(script), tools="all")
    agent = Agent(script.model(), tools=[look], capabilities=[speculation])

    assert agent.run_sync("go").output == "done"
    assert runs == ["a"]
    assert speculation.report().total.claims == 1


async def test_the_capability_may_be_given_to_one_run() -> None:
    trial = two_calls()

    await Agent(trial.script.model(), tools=[trial.look]).run("go", capabilities=[trial.speculation])

    assert trial.runs == ["a", "b"]
    assert trial.total.claims == 2


@pytest.mark.parametrize("drive", [run_stream, run_stream_events])
async def test_a_call_starts_when_the_stream_has_its_arguments(drive: Drive) -> None:
    trial = two_calls(drafts=StreamSpeculator())

    await drive(trial.agent(trial.look))

    assert trial.runs == ["a", "b"]
    assert trial.total.claims == 2


async def test_predictors_get_the_history_and_the_tools() -> None:
    trial = Speculating()
    oracle = Oracle(trial.script)
    trial.script.before = oracle.decided
    speculation = SpeculateTools[Any](oracle, tools=["look"])
    agent = Agent(
        trial.script.model(), instructions="Be brief.", tools=[trial.look], capabilities=[speculation]
    )
    await agent.run("go")

    call = {"name": "look", "arguments": '{"q":"a"}'}
    assert oracle.requests[-1].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_0_0", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "call_0_0", "content": "found a"},
    ]
    (tool,) = oracle.requests[-1].tools
    assert tool["function"]["name"] == "look"
    assert list(tool["function"]["parameters"]["properties"]) == ["q"]


async def test_a_wrong_draft_is_wasted_and_the_tool_runs() -> None:
    trial = Speculating(until=["ran wrong"], wrong=[0])
    result = await trial.agent(trial.look).run("go")

    assert trial.runs == ["wrong", "a"]
    assert "found a" in str(result.all_messages())
    assert (trial.total.claims, trial.total.misses, trial.total.wasted) == (0, 1, 1)


async def test_a_running_speculation_ends_with_its_run() -> None:
    trial = Speculating("no call", until=["began"], drafts=ScriptedSpeculator([DRAFT]))

    async def look(q: str) -> str:
        trial.happenings.note("began")
        try:
            await asyncio.Event().wait()
        finally:
            trial.happenings.note("ended")
        return ""

    before = asyncio.all_tasks()
    await trial.agent(look).run("go")

    assert "ended" in trial.happenings.seen
    assert asyncio.all_tasks() == before


async def test_a_hanging_function_does_not_hold_up_its_run() -> None:
    release = threading.Event()
    trial = Speculating("no call", until=["SpeculationStarted"], drafts=ScriptedSpeculator([DRAFT]))

    def look(q: str) -> str:
        release.wait(PATIENCE_S)
        return ""

    try:
        await trial.agent(look).run("go")
        assert not release.is_set()
    finally:
        release.set()


# Which tools.


READ_AND_OTHER = ([("read", {"q": "a"}), ("other", {"q": "a"})], "done")


async def run_with(selector: Any, *tools: Any, toolsets: Any = ()) -> Speculating:
    """Run an agent that calls ``read`` and ``other`` once the drafts of both have been decided on."""
    trial = Speculating(*READ_AND_OTHER, until=["DraftArrived"], tools=selector)
    await trial.agent(*tools, toolsets=toolsets).run("go")
    return trial


def _read(q: str) -> str:
    return f"read {q}"


def _other(q: str) -> str:
    return f"other {q}"


OTHER = Tool(_other, name="other")


def _readable(ctx: RunContext[Any], tool: ToolDefinition) -> bool:
    return tool.name == "read"


async def _readable_soon(ctx: RunContext[Any], tool: ToolDefinition) -> bool:
    return tool.name == "read"


@pytest.mark.parametrize(
    "selector",
    [["read"], {"kind": {"safe": True}}, _readable, _readable_soon],
    ids=["names", "metadata", "function", "coroutine function"],
)
async def test_a_selector_selects_tools(selector: Any) -> None:
    read = Tool(_read, name="read", metadata={"kind": {"safe": True, "more": 1}})
    other = Tool(_other, name="other", metadata={"kind": {"safe": False}})
    trial = await run_with(selector, read, other)

    assert "refused other: no speculable tool of this name" in trial.happenings.seen
    assert {name: tool.claims for name, tool in trial.speculation.report().tools.items()} == {"read": 1}


async def test_a_declared_function_needs_no_selector_and_keeps_its_options() -> None:
    guarded = Tool(speculable(guard=lambda arguments: arguments["q"] != "a")(_other), name="other")
    trial = await run_with((), Tool(speculable(_read), name="read"), guarded)

    assert "refused other: its guard does not permit it with these arguments" in trial.happenings.seen
    assert trial.speculation.report().tools["read"].claims == 1


@pytest.mark.parametrize(
    ("selector", "around"),
    [
        ("all", lambda tools: tools.prefixed("re").renamed({"read": "re_ad", "other": "re_other"})),
        ("all", lambda tools: tools.renamed({"read": "ad"}).filtered(lambda ctx, tool: True)),
        ("all", lambda tools: tools.renamed({"read": "ad"}).with_metadata(owner="me")),
        (["read", "other"], lambda tools: lambda context: FunctionToolset([Tool(_read, name="read"), OTHER])),
    ],
    ids=["prefixed and renamed", "filtered", "with metadata", "dynamic"],
)
async def test_tools_of_toolsets_are_claimed_by_the_names_that_the_model_sees(
    selector: Any, around: Any
) -> None:
    trial = await run_with(selector, toolsets=[around(FunctionToolset([Tool(_read, name="ad"), OTHER]))])

    assert trial.total.claims == 2


@pytest.mark.parametrize(("options", "reads"), [({}, 1), ({"invalidated_by": ["write"]}, 2)])
async def test_options_hold_for_the_selected_tools(options: Any, reads: int) -> None:
    trial = Speculating([("write", {"q": "a"}), ("look", {"q": "a"})], "done", **options)
    await trial.agent(trial.look, Tool(_other, name="write")).run("go")

    assert len(trial.runs) == reads
    assert trial.total.claims == 2 - reads


@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
async def test_a_preparation_is_committed_by_the_call_or_discarded(made: bool) -> None:
    draft = ToolCall("send", {"q": "a"})
    trial = Speculating(
        [("send", {"q": "a" if made else "b"})],
        "done",
        until=["drafted a"],
        drafts=ScriptedSpeculator([draft]),
        tools=(),
    )
    note = trial.happenings.note

    async def prepare(q: str) -> str:
        note(f"drafted {q}")
        return q

    async def post(drafted: str) -> str:
        note(f"posted {drafted}")
        return "posted"

    async def delete(drafted: str) -> None:
        note(f"deleted {drafted}")

    @speculable(prepare=prepare, commit=post, discard=delete)
    async def send(q: str) -> str:
        return await post(await prepare(q))

    await trial.agent(send).run("go")

    done = [seen for seen in trial.happenings.seen if seen[-2:] in {" a", " b"}]
    real = ["posted a"] if made else ["deleted a", "drafted b", "posted b"]
    assert done[0] == "drafted a"
    assert sorted(done[1:]) == sorted(real)


# Runs.


async def test_runs_at_one_time_claim_their_own_speculations() -> None:
    trial = Speculating()

    async def until_all_have_started(turn: int) -> None:
        if turn == 0:
            await trial.happenings.until("SpeculationStarted", 3)

    trial.script.before = until_all_have_started
    runs: list[str] = []

    async def look(ctx: RunContext[str], q: str) -> str:
        runs.append(ctx.deps)
        return f"{q} for {ctx.deps}"

    agent = trial.agent(look, deps_type=str)
    users = ["ann", "bob", "eve"]
    results = await asyncio.gather(*(agent.run("go", deps=user) for user in users))

    assert sorted(runs) == users
    for user, result in zip(users, results, strict=True):
        assert f"a for {user}" in str(result.all_messages())
    assert trial.total.claims == 3


async def test_max_concurrency_counts_over_all_runs() -> None:
    refused = "refused look: max_concurrency of the tool is reached"
    trial = Speculating(until=[refused], max_concurrency=1)
    release = asyncio.Event()

    async def look(q: str) -> str:
        await release.wait()
        return q

    agent = trial.agent(look)
    both = asyncio.gather(agent.run("go"), agent.run("go"))
    await trial.happenings.until(refused)
    release.set()
    await both


# Wrong arguments.


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one predictor"):
        SpeculateTools([])
    with pytest.raises(ConfigurationError, match="sends no model request ahead"):
        SpeculateTools(StreamSpeculator(), config=SpeculationConfig(turn_ahead=TurnAhead()))
    with pytest.raises(ConfigurationError, match="ttl"):
        SpeculateTools(StreamSpeculator(), ttl=-1)
