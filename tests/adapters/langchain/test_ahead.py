"""Turn-ahead in an unchanged graph: every door, nothing twice, nothing seen of what was not kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.rate_limiters import BaseRateLimiter

from agentrt import SpeculationConfig
from agentrt.adapters.langchain import report_of, speculate
from agentrt.config import TurnAhead
from agentrt.perfmodel import TurnTimes
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Calls, Milestones, Oracle, ScriptedChat, Silent
from tests.adapters.langchain.graphs import (
    BUILDERS,
    INPUT,
    Tracer,
    adrive,
    async_tool,
    drive,
    sync_tool,
    transcript,
)

pytestmark = pytest.mark.usefixtures("prediction_is_free")

TURNS = 4
SCRIPT: list[Calls] = [[("look", {"q": f"q{turn}"})] for turn in range(TURNS)]
TIMES = TurnTimes(generation=40, draft=1, tool=9)
ON = SpeculationConfig(turn_ahead=TurnAhead(depth=TURNS))


def oracle(wrong: Sequence[int] = (), draft: float = TIMES.draft) -> Oracle:
    return Oracle(SCRIPT, wrong, delay=draft)


def timed(model: Any, build: Any = BUILDERS[0], streamed: bool = False) -> tuple[list[Any], float]:
    """Run an agent in virtual time; return its transcript and the seconds."""

    async def main() -> tuple[list[Any], float]:
        messages = await adrive(build(model, [async_tool(TIMES.tool, [])]), streamed)
        return transcript(messages), asyncio.get_running_loop().time()

    return run_in_virtual_time(main)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wrong", [(), (1,), range(TURNS)])
def test_a_graph_says_the_same_sooner(build: Any, streamed: bool, wrong: Sequence[int]) -> None:
    model = speculate(Silent(script=SCRIPT, delay=TIMES.generation), oracle(wrong), config=ON)
    plain, _ = timed(Silent(script=SCRIPT, delay=TIMES.generation), build, streamed)
    fast, fast_s = timed(model, build, streamed)
    assert fast == plain
    wrong_s = len(wrong) * (TIMES.generation + TIMES.tool)
    right_s = (TURNS - len(wrong)) * (TIMES.draft + TIMES.tool)
    # A turn with a wrong draft takes its whole time; the requests sent ahead after it are wasted.
    assert fast_s <= wrong_s + right_s + (len(wrong) + 1) * TIMES.generation
    report = report_of(model)
    assert report.ahead.kept == TURNS - len(wrong)
    assert report.total.claims == TURNS - len(wrong)


def test_callbacks_and_streams_see_what_they_see_without() -> None:
    def run(model: Any) -> tuple[list[str], list[Any]]:
        tracer, tokens = Tracer(), list[Any]()

        async def main() -> None:
            app = BUILDERS[0](model, [async_tool(TIMES.tool, [])])
            async for message, _ in app.astream(INPUT, {"callbacks": [tracer]}, stream_mode="messages"):
                tokens.append((message.type, message.content, getattr(message, "tool_call_chunks", None)))

        run_in_virtual_time(main)
        return tracer.seen, tokens

    plain = Silent(script=SCRIPT, delay=TIMES.generation)
    assert run(speculate(plain, oracle(wrong=[2]), config=ON)) == run(plain)


def test_a_draft_model_gets_the_history_of_the_request_sent_ahead() -> None:
    draft = Silent(script=SCRIPT, delay=TIMES.draft, prefix="draft")
    model = speculate(Silent(script=SCRIPT, delay=TIMES.generation), draft, config=ON)
    assert timed(model)[1] == TURNS * (TIMES.draft + TIMES.tool) + TIMES.generation
    assert report_of(model).ahead.kept == TURNS


def test_a_model_that_talks_beside_its_calls_keeps_nothing_and_loses_nothing() -> None:
    plain = ScriptedChat(script=SCRIPT, delay=TIMES.generation)
    with_ahead, without = (speculate(plain, oracle(), config=config) for config in (ON, None))
    assert timed(with_ahead, streamed=True) == timed(without, streamed=True)


@pytest.mark.parametrize("edited", [False, True])
def test_calls_that_are_also_in_the_content_are_no_words_beside_them(edited: bool) -> None:
    class Blocks(Silent):
        def _begin(self, messages: Any) -> Any:
            message = super()._begin(messages)
            blocks = [
                {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
                if number % 2
                else {
                    "type": "function_call",
                    "id": "item",
                    "call_id": call["id"],
                    "name": call["name"],
                    "arguments": json.dumps({**call["args"], "q": "else"} if edited else call["args"]),
                }
                for number, call in enumerate(message.tool_calls, len(messages) // 2)
            ]
            return message.model_copy(update={"content": blocks}) if blocks else message

    model = speculate(Blocks(script=SCRIPT, delay=TIMES.generation), oracle(), config=ON)
    timed(model)
    # Every other answer's content says something else than its calls.
    assert report_of(model).ahead.kept == (TURNS // 2 if edited else TURNS)


def test_a_rate_limit_is_not_spent_on_what_is_not_due() -> None:
    class Limit(BaseRateLimiter):
        waited = 0

        def acquire(self, *, blocking: bool = True) -> bool:
            return blocking

        async def aacquire(self, *, blocking: bool = True) -> bool:
            self.waited += blocking
            return blocking

    limit = Limit()
    model = speculate(Silent(script=SCRIPT, delay=40, rate_limiter=limit), oracle(), config=ON)
    assert timed(model)[0][-1][1] == "done"
    assert len(model.asked) == limit.waited == TURNS + 1


# The sync doors, where the model is asked ahead in threads: no clock, only who waits for whom.


class Overtaken:
    """A gate: no turn is answered before the model has been asked for the next one."""

    def __init__(self) -> None:
        self.milestones = Milestones()

    def __call__(self, turn: int) -> None:
        self.milestones.reach(f"asked {turn}")
        if turn < TURNS:
            self.milestones.wait(f"asked {turn + 1}")


def sync_model(gate: Any, wrong: Sequence[int] = (), depth: int = TURNS) -> Silent:
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=depth))
    return speculate(Silent(script=SCRIPT, gate=gate), oracle(wrong, draft=0), config=config)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("depth", "wrong"), [(1, ()), (TURNS, ()), (1, (0, 2))])
def test_a_sync_graph_says_the_same_with_requests_sent_ahead(
    build: Any, streamed: bool, depth: int, wrong: Sequence[int]
) -> None:
    plain = drive(build(Silent(script=SCRIPT), [sync_tool([], Milestones())]), streamed)
    model = sync_model(Overtaken(), wrong=wrong, depth=depth)
    messages = drive(build(model, [sync_tool([], Milestones())]), streamed)
    assert transcript(messages) == transcript(plain)
    report = report_of(model)
    assert (report.ahead.kept, report.ahead.wasted) == (TURNS - len(wrong), len(wrong))
    assert report.total.claims == TURNS - len(wrong)
    if not wrong:
        assert sorted(model.asked) == list(range(TURNS + 1))  # each once


@pytest.mark.parametrize("streamed", [False, True])
def test_sync_callbacks_and_streams_see_what_they_see_without(streamed: bool) -> None:
    def run(model: Any) -> tuple[list[str], list[Any]]:
        tracer, tokens = Tracer(), list[Any]()
        app = BUILDERS[0](model, [sync_tool([], Milestones())])
        if streamed:
            for message, _ in app.stream(INPUT, {"callbacks": [tracer]}, stream_mode="messages"):
                tokens.append((message.type, message.content, getattr(message, "tool_call_chunks", None)))
        else:
            app.invoke(INPUT, {"callbacks": [tracer]})
        return tracer.seen, tokens

    model = sync_model(Overtaken(), wrong=[1], depth=1)  # deeper ones would let the gate pass
    assert run(model) == run(Silent(script=SCRIPT))
    assert report_of(model).ahead.kept == TURNS - 1


def test_a_sync_stream_that_is_not_kept_ends_at_its_next_chunk() -> None:
    milestones = Milestones()

    class Endless(Silent):
        def _stream(self, messages: list[Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
            if not any(message.type == "tool" for message in messages):
                milestones.wait("told")
                yield from super()._stream(messages, *args, **kwargs)
                return
            try:
                while True:
                    yield self._chunks(self._begin(messages))[0]
                    milestones.reach("told")
            finally:
                milestones.reach("closed")

    config = SpeculationConfig(turn_ahead=TurnAhead())
    model = speculate(Endless(script=SCRIPT), oracle([0], draft=0), config=config)
    list(model.bind_tools([sync_tool([], Milestones())]).stream("hi"))
    milestones.wait("closed")
    assert report_of(model).ahead.wasted == 1


def test_an_answer_of_a_model_that_is_set_otherwise_is_not_kept() -> None:
    class Named(Silent):
        @property
        def _identifying_params(self) -> dict[str, Any]:
            return {"prefix": self.prefix}

    async def main() -> str:
        look = async_tool(TIMES.tool, [])
        model = speculate(Named(script=SCRIPT, delay=TIMES.generation), oracle(), config=ON)
        history: list[Any] = [HumanMessage("hi")]
        history.append(await model.bind_tools([look]).ainvoke(history))
        history.append(await look.ainvoke({**history[-1].tool_calls[0], "type": "tool_call"}))
        other = model.model_copy(update={"prefix": "other"})
        return str((await other.bind_tools([look]).ainvoke(history)).tool_calls[0]["id"])

    assert run_in_virtual_time(main) == "other_1_0"
