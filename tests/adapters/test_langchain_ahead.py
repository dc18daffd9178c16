"""Turn-ahead in an unchanged graph: every async door, nothing twice, nothing seen of what was not kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.rate_limiters import BaseRateLimiter

from agentrt import DraftRequest, SpeculationConfig, ToolCall
from agentrt.adapters.langchain import report_of, speculate
from agentrt.config import TurnAhead
from agentrt.perfmodel import TurnTimes
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Calls, ScriptedChat
from tests.adapters.test_langchain_model import BUILDERS, INPUT, adrive, async_tool, transcript

TURNS = 4
SCRIPT: list[Calls] = [[("look", {"q": f"q{turn}"})] for turn in range(TURNS)]
TIMES = TurnTimes(generation=40, draft=1, tool=9)
ON = SpeculationConfig(turn_ahead=TurnAhead(depth=TURNS))


class Silent(ScriptedChat):
    """Calls without a word beside the call, as most models do."""

    def _begin(self, messages: Any) -> Any:
        message = super()._begin(messages)
        return message.model_copy(update={"content": ""}) if message.tool_calls else message


class Oracle:
    def __init__(self, wrong: Sequence[int] = ()) -> None:
        self._wrong = wrong

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        await asyncio.sleep(TIMES.draft)
        turn = sum(message["role"] == "tool" for message in request.messages)
        if turn < TURNS:
            yield ToolCall("look", {"q": f"q{turn}" + "x" * (turn in self._wrong)})


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wrong", [(), (1,), range(TURNS)])
def test_a_graph_says_the_same_sooner(build: Any, streamed: bool, wrong: Sequence[int]) -> None:
    async def run(model: Any) -> tuple[list[Any], float]:
        messages = await adrive(build(model, [async_tool(TIMES.tool, [])]), streamed)
        return transcript(messages), asyncio.get_running_loop().time()

    model = speculate(Silent(script=SCRIPT, delay=TIMES.generation), Oracle(wrong), config=ON)
    plain, _ = run_in_virtual_time(lambda: run(Silent(script=SCRIPT, delay=TIMES.generation)))
    fast, fast_s = run_in_virtual_time(lambda: run(model))
    assert fast == plain
    wrong_s = len(wrong) * (TIMES.generation + TIMES.tool)
    right_s = (TURNS - len(wrong)) * (TIMES.draft + TIMES.tool)
    # A turn with a wrong guess ends when it ends; what followed it was asked in vain.
    assert fast_s <= wrong_s + right_s + (len(wrong) + 1) * TIMES.generation
    report = report_of(model)
    assert report.ahead.kept == TURNS - len(wrong)
    assert report.total.claims == TURNS - len(wrong)


def test_callbacks_and_streams_see_what_they_see_without() -> None:
    class Tracer(AsyncCallbackHandler):
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            self.seen.append("model")

        async def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            self.seen.append(f"token {token}")

        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            self.seen.append("model end")

        async def on_tool_end(self, output: Any, **kwargs: Any) -> None:
            self.seen.append(f"tool {output.content}")

    def run(speculative: bool) -> tuple[list[str], list[Any]]:
        tracer, tokens = Tracer(), list[Any]()

        async def main() -> None:
            model: Any = Silent(script=SCRIPT, delay=TIMES.generation)
            if speculative:
                model = speculate(model, Oracle(wrong=[2]), config=ON)
            app = BUILDERS[0](model, [async_tool(TIMES.tool, [])])
            async for message, _ in app.astream(INPUT, {"callbacks": [tracer]}, stream_mode="messages"):
                tokens.append((message.type, message.content, getattr(message, "tool_call_chunks", None)))

        run_in_virtual_time(main)
        return tracer.seen, tokens

    assert run(True) == run(False)


def test_a_draft_model_is_asked_about_the_history_it_is_asked_about() -> None:
    async def main() -> tuple[float, int]:
        draft = Silent(script=SCRIPT, delay=TIMES.draft, prefix="draft")
        model = speculate(Silent(script=SCRIPT, delay=TIMES.generation), draft, config=ON)
        await adrive(BUILDERS[0](model, [async_tool(TIMES.tool, [])]), False)
        return asyncio.get_running_loop().time(), report_of(model).ahead.kept

    assert run_in_virtual_time(main) == (TURNS * (TIMES.draft + TIMES.tool) + TIMES.generation, TURNS)


def test_a_model_that_talks_beside_its_calls_keeps_nothing_and_loses_nothing() -> None:
    async def run(config: SpeculationConfig | None) -> tuple[list[Any], float]:
        model = speculate(ScriptedChat(script=SCRIPT, delay=40), Oracle(), config=config)
        messages = await adrive(BUILDERS[0](model, [async_tool(TIMES.tool, [])]), True)
        return transcript(messages), asyncio.get_running_loop().time()

    assert run_in_virtual_time(lambda: run(ON)) == run_in_virtual_time(lambda: run(None))


def test_a_rate_limit_is_not_spent_on_what_is_not_due() -> None:
    class Limit(BaseRateLimiter):
        waited = 0

        def acquire(self, *, blocking: bool = True) -> bool:
            return blocking

        async def aacquire(self, *, blocking: bool = True) -> bool:
            self.waited += blocking
            return blocking

    limit = Limit()

    async def main() -> tuple[list[Any], int]:
        model = speculate(Silent(script=SCRIPT, delay=40, rate_limiter=limit), Oracle(), config=ON)
        messages = await adrive(BUILDERS[0](model, [async_tool(TIMES.tool, [])]), False)
        return transcript(messages), len(model.asked)

    said, asked = run_in_virtual_time(main)
    assert said[-1][1] == "done"
    assert asked == limit.waited == TURNS + 1
