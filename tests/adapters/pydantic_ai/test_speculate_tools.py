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
from tests.adapters.pydantic_ai.doubles import Happenings, Oracle, Script, settled, transcript
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")

TWO_CALLS = ([("look", {"q": "a"})], [("look", {"q": "b"})], "done")
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


def counted(happenings: Happenings, runs: list[str], *, is_async: bool) -> Callable[..., Any]:
    loop = asyncio.get_running_loop()

    async def look(q: str) -> str:
        """Look something up."""
        runs.append(q)
        happenings.note(f"ran {q}")
        return f"found {q}"

    if is_async:
        return look

    def look_in_thread(q: str) -> str:
        """Look something up."""
        runs.append(q)
        loop.call_soon_threadsafe(happenings.note, f"ran {q}")
        return f"found {q}"

    look_in_thread.__name__ = "look"
    return look_in_thread


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("drive", DRIVES)
def test_each_call_runs_once_and_is_claimed(drive: Drive, is_async: bool) -> None:
    async def main() -> None:
        happenings, runs = Happenings(), list[str]()

        async def until_speculated(turn: int) -> None:
            if turn < 2:
                await happenings.until(f"ran {'ab'[turn]}")

        look = counted(happenings, runs, is_async=is_async)
        plain = await drive(Agent(Script(*TWO_CALLS).model(), tools=[look]))
        assert runs == ["a", "b"]
        runs.clear()
        happenings.seen.clear()

        script = Script(*TWO_CALLS, before=until_speculated)
        speculation = SpeculateTools[None](Oracle(script), tools=["look"])
        result = await drive(Agent(script.model(), tools=[look], capabilities=[speculation]))

        assert runs == ["a", "b"]
        assert transcript(result.all_messages()) == transcript(plain.all_messages())
        assert result.usage == plain.usage
        total = speculation.report().total
        assert (total.claims, total.misses, total.wasted) == (2, 0, 0), str(speculation.report())

    asyncio.run(main())


def look_up(q: str) -> str:
    """Look something up."""
    return q


@pytest.mark.parametrize("wrong", ["ALL", "look_up", [look_up], look_up, 3, None, {"look_up"}, dict, [3]])
def test_what_selects_no_tools_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^tools: .* selects no tools. Give a list of their names"):
        SpeculateTools(StreamSpeculator(), tools=wrong)


def test_the_name_of_no_tool_is_refused_in_the_run() -> None:
    async def main(names: list[str], **options: Any) -> None:
        speculation = SpeculateTools[None](StreamSpeculator(), tools=names)
        agent = Agent(Script("done").model(), capabilities=[speculation], **options)
        await agent.run("go")

    async def hidden(context: RunContext[None], definition: ToolDefinition) -> None:
        return None

    later = Tool(look_up, name="later", prepare=hidden)
    for options in ({"tools": [look_up]}, {"toolsets": [FunctionToolset([look_up])]}, {}):
        with pytest.raises(ConfigurationError, match=r"the agent has no tool 'look_pu'. Name some of"):
            asyncio.run(main(["look_pu"], **options))
    asyncio.run(main(["later", "look_up"], tools=[look_up, later]))
    asyncio.run(main(["a_look_up"], toolsets=[FunctionToolset([look_up]).prefixed("a")]))
    asyncio.run(main(["look_pu"], toolsets=[lambda context: FunctionToolset([look_up])]))


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


def test_the_capability_may_be_given_to_one_run() -> None:
    async def main() -> None:
        happenings, runs = Happenings(), list[str]()
        script = Script(*TWO_CALLS, before=lambda turn: _until(happenings, turn))
        agent = Agent(script.model(), tools=[counted(happenings, runs, is_async=True)])
        speculation = SpeculateTools[None](Oracle(script), tools=["look"])

        await agent.run("go", capabilities=[speculation])

        assert runs == ["a", "b"]
        assert speculation.report().total.claims == 2

    asyncio.run(main())


async def _until(happenings: Happenings, turn: int) -> None:
    if turn < 2:
        await happenings.until(f"ran {'ab'[turn]}")


@pytest.mark.parametrize("drive", [run_stream, run_stream_events])
def test_a_call_starts_when_the_stream_has_its_arguments(drive: Drive) -> None:
    async def main() -> None:
        happenings, runs = Happenings(), list[str]()
        script = Script(*TWO_CALLS, before=lambda turn: _until(happenings, turn))
        speculation = SpeculateTools[None](StreamSpeculator(), tools=["look"])
        look = counted(happenings, runs, is_async=True)

        await drive(Agent(script.model(), tools=[look], capabilities=[speculation]))

        assert runs == ["a", "b"]
        assert speculation.report().total.claims == 2

    asyncio.run(main())


def test_predictors_get_the_history_and_the_tools() -> None:
    async def main() -> None:
        script = Script([("look", {"q": "a"})], "done")
        oracle = Oracle(script)
        script.before = oracle.decided
        agent = Agent(
            script.model(),
            instructions="Be brief.",
            tools=[counted(Happenings(), [], is_async=True)],
            capabilities=[SpeculateTools(oracle, tools=["look"])],
        )
        await agent.run("go")

        assert oracle.requests[-1].messages == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "call_0_0",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"q":"a"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_0_0", "content": "found a"},
        ]
        ((name, parameters),) = [
            (tool["function"]["name"], tool["function"]["parameters"]) for tool in oracle.requests[-1].tools
        ]
        assert (name, list(parameters["properties"])) == ("look", ["q"])

    asyncio.run(main())


def test_a_wrong_draft_is_wasted_and_the_tool_runs() -> None:
    async def main() -> None:
        happenings, runs = Happenings(), list[str]()

        async def until_speculated(turn: int) -> None:
            if turn == 0:
                await happenings.until("ran wrong")

        script = Script([("look", {"q": "a"})], "done", before=until_speculated)
        speculation = SpeculateTools[None](Oracle(script, wrong=[0]), tools=["look"])
        look = counted(happenings, runs, is_async=True)
        result = await Agent(script.model(), tools=[look], capabilities=[speculation]).run("go")

        assert runs == ["wrong", "a"]
        assert "found a" in str(result.all_messages())
        total = speculation.report().total
        assert (total.claims, total.misses, total.wasted) == (0, 1, 1)

    asyncio.run(main())


def test_a_running_speculation_ends_with_its_run() -> None:
    async def main() -> None:
        happenings = Happenings()

        async def look(q: str) -> str:
            happenings.note("began")
            try:
                await asyncio.Event().wait()
            finally:
                happenings.note("ended")
            return ""

        async def until_speculated(turn: int) -> None:
            await happenings.until("began")

        script = Script("no call", before=until_speculated)
        drafts = ScriptedSpeculator([_call("look", q="a")])
        speculation = SpeculateTools[None](drafts, tools=["look"], observers=[happenings])
        await Agent(script.model(), tools=[look], capabilities=[speculation]).run("go")

        assert "ended" in happenings.seen
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_a_hanging_function_does_not_hold_up_its_run() -> None:
    release = threading.Event()

    def look(q: str) -> str:
        release.wait(PATIENCE_S)
        return ""

    async def main() -> None:
        happenings = Happenings()

        async def until_speculated(turn: int) -> None:
            await happenings.until("SpeculationStarted")
            await asyncio.sleep(0)

        script = Script("no call", before=until_speculated)
        drafts = ScriptedSpeculator([_call("look", q="a")])
        speculation = SpeculateTools[None](drafts, tools=["look"], observers=[happenings])
        await Agent(script.model(), tools=[look], capabilities=[speculation]).run("go")
        assert not release.is_set()

    try:
        asyncio.run(main())
    finally:
        release.set()


def _call(name: str, **arguments: Any) -> Any:
    return ToolCall(name, arguments)


# Which tools.


def _agent_with(selector: Any, *tools: Any, toolsets: Any = ()) -> tuple[Agent[None, str], Any, Happenings]:
    happenings = Happenings()

    async def until_decided(turn: int) -> None:
        if turn == 0:
            await happenings.until("DraftArrived", 2)
            await asyncio.sleep(0)

    script = Script([("read", {"q": "a"}), ("other", {"q": "a"})], "done", before=until_decided)
    speculation = SpeculateTools[None](Oracle(script), tools=selector, observers=[happenings])
    agent = Agent(script.model(), tools=tools, toolsets=toolsets, capabilities=[speculation])
    return agent, speculation, happenings


def _read(q: str) -> str:
    return f"read {q}"


def _other(q: str) -> str:
    return f"other {q}"


def _readable(ctx: RunContext[Any], tool: ToolDefinition) -> bool:
    return tool.name == "read"


async def _readable_soon(ctx: RunContext[Any], tool: ToolDefinition) -> bool:
    return tool.name == "read"


@pytest.mark.parametrize(
    "selector",
    [["read"], {"kind": {"safe": True}}, _readable, _readable_soon],
    ids=["names", "metadata", "function", "coroutine function"],
)
def test_a_selector_selects_tools(selector: Any) -> None:
    async def main() -> None:
        read = Tool(_read, name="read", metadata={"kind": {"safe": True, "more": 1}})
        other = Tool(_other, name="other", metadata={"kind": {"safe": False}})
        agent, speculation, happenings = _agent_with(selector, read, other)
        await agent.run("go")

        assert "refused other: no speculable tool of this name" in happenings.seen
        assert {name: tool.claims for name, tool in speculation.report().tools.items()} == {"read": 1}

    asyncio.run(main())


def test_a_declared_function_needs_no_selector_and_keeps_its_options() -> None:
    async def main() -> None:
        def permits(arguments: Any) -> bool:
            return bool(arguments["q"] != "a")

        read = Tool(speculable(_read), name="read")
        guarded = Tool(speculable(guard=permits)(_other), name="other")
        agent, speculation, happenings = _agent_with((), read, guarded)
        await agent.run("go")

        assert "refused other: its guard does not permit it with these arguments" in happenings.seen
        assert speculation.report().tools["read"].claims == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    "around",
    [
        lambda tools: tools.prefixed("re").renamed({"read": "re_ad", "other": "re_other"}),
        lambda tools: tools.renamed({"read": "ad"}).filtered(lambda ctx, tool: True),
        lambda tools: tools.renamed({"read": "ad"}).with_metadata(owner="me"),
    ],
    ids=["prefixed and renamed", "filtered", "with metadata"],
)
def test_tools_of_toolsets_are_claimed_by_the_names_that_the_model_sees(around: Any) -> None:
    async def main() -> None:
        def ad(q: str) -> str:
            return f"read {q}"

        def other(q: str) -> str:
            return f"other {q}"

        agent, speculation, _ = _agent_with("all", toolsets=[around(FunctionToolset([ad, other]))])
        await agent.run("go")

        assert speculation.report().total.claims == 2

    asyncio.run(main())


def test_tools_of_a_dynamic_toolset_are_claimed() -> None:
    async def main() -> None:
        agent, speculation, _ = _agent_with(["read", "other"])

        @agent.toolset
        def toolset(ctx: RunContext[None]) -> FunctionToolset[None]:
            return FunctionToolset([Tool(_read, name="read"), Tool(_other, name="other")])

        await agent.run("go")

        assert speculation.report().total.claims == 2

    asyncio.run(main())


@pytest.mark.parametrize(("options", "reads"), [({}, 1), ({"invalidated_by": ["write"]}, 2)])
def test_options_hold_for_the_selected_tools(options: Any, reads: int) -> None:
    async def main() -> None:
        happenings, runs = Happenings(), list[str]()

        async def until_read(turn: int) -> None:
            if turn == 0:
                await happenings.until("ran a")

        script = Script([("write", {"q": "a"}), ("look", {"q": "a"})], "done", before=until_read)
        speculation = SpeculateTools[None](Oracle(script), tools=["look"], **options)
        look = counted(happenings, runs, is_async=True)
        write = Tool(_other, name="write")
        await Agent(script.model(), tools=[look, write], capabilities=[speculation]).run("go")

        assert len(runs) == reads
        assert speculation.report().total.claims == 2 - reads

    asyncio.run(main())


@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
def test_a_preparation_is_committed_by_the_call_or_discarded(made: bool) -> None:
    async def main() -> None:
        done: list[str] = []
        prepared = asyncio.Event()

        async def draft(q: str) -> str:
            done.append(f"drafted {q}")
            prepared.set()
            return q

        async def post(drafted: str) -> str:
            done.append(f"posted {drafted}")
            return "posted"

        async def delete(drafted: str) -> None:
            done.append(f"deleted {drafted}")

        @speculable(prepare=draft, commit=post, discard=delete)
        async def send(q: str) -> str:
            return await post(await draft(q))

        async def until_prepared(turn: int) -> None:
            await asyncio.wait_for(prepared.wait(), PATIENCE_S)
            await settled()

        script = Script([("send", {"q": "a" if made else "b"})], "done", before=until_prepared)
        speculation = SpeculateTools[None](ScriptedSpeculator([_call("send", q="a")]))
        await Agent(script.model(), tools=[send], capabilities=[speculation]).run("go")

        real = ["posted a"] if made else ["deleted a", "drafted b", "posted b"]
        assert done[0] == "drafted a"
        assert sorted(done[1:]) == sorted(real)

    asyncio.run(main())


# Runs.


def test_runs_at_one_time_claim_their_own_speculations() -> None:
    async def main() -> None:
        happenings = Happenings()

        async def until_speculated(turn: int) -> None:
            if turn == 0:
                await happenings.until("SpeculationStarted", 3)

        runs: list[str] = []

        async def look(ctx: RunContext[str], q: str) -> str:
            runs.append(ctx.deps)
            return f"{q} for {ctx.deps}"

        script = Script([("look", {"q": "a"})], "done", before=until_speculated)
        speculation = SpeculateTools[str](Oracle(script), tools=["look"], observers=[happenings])
        agent = Agent(script.model(), deps_type=str, tools=[look], capabilities=[speculation])
        results = await asyncio.gather(*(agent.run("go", deps=user) for user in ("ann", "bob", "eve")))

        assert sorted(runs) == ["ann", "bob", "eve"]
        for user, result in zip(("ann", "bob", "eve"), results, strict=True):
            assert f"a for {user}" in str(result.all_messages())
        assert speculation.report().total.claims == 3

    asyncio.run(main())


def test_max_concurrency_counts_over_all_runs() -> None:
    async def main() -> None:
        happenings = Happenings()

        async def until_decided(turn: int) -> None:
            if turn == 0:
                await happenings.until("refused look: max_concurrency of the tool is reached")

        script = Script([("look", {"q": "a"})], "done", before=until_decided)
        release = asyncio.Event()

        async def slow(q: str) -> str:
            await release.wait()
            return q

        slow.__name__ = "look"
        speculation = SpeculateTools[None](
            Oracle(script), tools=["look"], max_concurrency=1, observers=[happenings]
        )
        agent = Agent(script.model(), tools=[slow], capabilities=[speculation])
        both = asyncio.gather(agent.run("go"), agent.run("go"))
        await happenings.until("refused look: max_concurrency of the tool is reached")
        release.set()
        await both

    asyncio.run(main())


# Wrong arguments.


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one predictor"):
        SpeculateTools([])
    with pytest.raises(ConfigurationError, match="sends no model request ahead"):
        SpeculateTools(StreamSpeculator(), config=SpeculationConfig(turn_ahead=TurnAhead()))
    with pytest.raises(ConfigurationError, match="ttl"):
        SpeculateTools(StreamSpeculator(), ttl=-1)
