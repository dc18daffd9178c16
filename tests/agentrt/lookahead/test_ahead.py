"""Turn-ahead: faster than the paper's bound, the same transcript, kept only if equal, within its budget."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from agentrt import (
    DraftRequest,
    SpeculationConfig,
    SpeculationReport,
    SpeculationSession,
    ToolCall,
    speculable,
)
from agentrt.config import TurnAhead
from agentrt.perfmodel import TurnTimes
from agentrt.testing import run_in_virtual_time

pytestmark = pytest.mark.usefixtures("prediction_is_free")

Message = Mapping[str, Any]
TURNS = 6


def steps_taken(messages: Sequence[Message]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


class Script:
    """A model that calls ``look`` once a turn, and records its requests."""

    def __init__(self, generation_s: float, text: str | None = None) -> None:
        self.requests: list[int] = []
        self.cancelled = 0
        self._generation_s = generation_s
        self._text = text

    async def __call__(self, messages: Sequence[Message], tools: Sequence[Message]) -> Message:
        step = steps_taken(messages)
        self.requests.append(step)
        try:
            await asyncio.sleep(self._generation_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if step == TURNS:
            return {"role": "assistant", "content": "done"}
        function = {"name": "look", "arguments": json.dumps({"q": f"q{step}"})}
        call = {"id": f"call_{len(self.requests)}", "type": "function", "function": function}
        return {"role": "assistant", "content": self._text, "tool_calls": [call]}


class Oracle:
    """Knows the next call; also without the last result if it ``looks_ahead``."""

    def __init__(self, draft_s: float, *, looks_ahead: bool, wrong: Sequence[int] = ()) -> None:
        self.looks_ahead = looks_ahead
        self._draft_s = draft_s
        self._wrong = wrong

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        await asyncio.sleep(self._draft_s)
        step = steps_taken(request.messages)
        if step < TURNS:
            yield ToolCall("look", {"q": f"q{step}" + "x" * (step in self._wrong)})


def run(
    times: TurnTimes,
    *,
    ahead: TurnAhead | None = None,
    looks_ahead: bool = False,
    wrong: Sequence[int] = (),
    text: str | None = None,
    result: Any = "found",
    model: Script | None = None,
    requests: int = TURNS + 1,
) -> tuple[list[Any], float, SpeculationReport, Script]:
    """Take turns up to the last answer, or as many as ``requests``, in a session of its own."""
    model = model or Script(times.generation, text)

    @speculable
    async def look(q: str) -> Any:
        await asyncio.sleep(times.tool)
        return result

    async def main() -> tuple[list[Any], float, SpeculationReport, Script]:
        oracle = Oracle(times.draft, looks_ahead=looks_ahead, wrong=wrong)
        config = SpeculationConfig(turn_ahead=ahead)
        messages: list[Message] = [{"role": "user", "content": "hi"}]
        async with SpeculationSession([look], [oracle], config=config) as session:
            for _ in range(requests):
                answer = await session.ask(model, messages, [])
                messages.append(answer)
                for call in answer.get("tool_calls", ()):
                    arguments = json.loads(call["function"]["arguments"])
                    value = await session.acall(ToolCall("look", arguments, call["id"]))
                    content = value if isinstance(value, str) else json.dumps(value)
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        took = asyncio.get_running_loop().time()
        return [_told(message) for message in messages], took, session.report(), model

    return run_in_virtual_time(main)


def _told(message: Message) -> Any:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return message["role"], message["content"], calls


@pytest.mark.parametrize("tool", [5, 20, 38])
def test_a_turn_takes_the_slower_of_tool_and_draft_however_long_the_model_writes(tool: int) -> None:
    times = TurnTimes(generation=40, draft=1, tool=tool)
    plain, plain_s, _, _ = run(times)
    fast, fast_s, report, _ = run(times, ahead=TurnAhead(depth=100))
    assert fast == plain
    assert plain_s == times.speculative(1.0, TURNS) + 40  # Eq. 1
    assert fast_s == TURNS * (1 + tool) + 40
    assert report.ahead.kept == TURNS
    assert report.ahead.wasted == 0


def test_with_a_predictor_that_needs_no_results_turns_overlap_and_beat_the_papers_bound() -> None:
    times = TurnTimes(generation=40, draft=1, tool=40)
    plain, _, _, _ = run(times)
    fast, fast_s, report, _ = run(times, ahead=TurnAhead(depth=TURNS), looks_ahead=True)
    assert fast == plain
    assert (
        fast_s == TURNS * 1 + 40 + 40
    )  # the drafts, one after the other; then the last tool, and the answer
    assert times.standard(TURNS) + 40 > 2 * fast_s
    assert report.ahead.kept == TURNS


def test_depth_bounds_how_many_requests_are_under_way() -> None:
    times = TurnTimes(generation=40, draft=1, tool=5)
    for depth in (1, 2):
        _, took, report, model = run(times, ahead=TurnAhead(depth=depth))
        assert report.ahead.kept == TURNS
        assert took == pytest.approx((TURNS // (depth + 1) + 1) * 40, abs=40)
    assert model.requests == sorted(model.requests)


@pytest.mark.parametrize("wrong", [[0], [2], [1, 4], list(range(TURNS))])
@pytest.mark.parametrize("looks_ahead", [False, True])
def test_a_wrong_draft_costs_a_request_and_changes_nothing(wrong: list[int], looks_ahead: bool) -> None:
    times = TurnTimes(generation=40, draft=1, tool=5)
    plain, plain_s, _, _ = run(times, wrong=wrong)
    fast, fast_s, report, model = run(
        times, ahead=TurnAhead(depth=3, max_wasted=100), wrong=wrong, looks_ahead=looks_ahead
    )
    assert fast == plain
    assert fast_s <= plain_s
    assert report.ahead.wasted >= len(wrong)
    assert report.ahead.kept + report.ahead.wasted == len(model.requests) - (TURNS + 1 - report.ahead.kept)


def test_an_answer_with_words_beside_its_call_is_another_history() -> None:
    times = TurnTimes(generation=40, draft=1, tool=5)
    plain, plain_s, _, _ = run(times, text="let me see")
    fast, fast_s, report, _ = run(times, ahead=TurnAhead(depth=2), text="let me see")
    assert (fast, fast_s) == (plain, plain_s)
    assert report.ahead.kept == 0


@pytest.mark.parametrize("depth", [1, 2, 3, 100])
@pytest.mark.parametrize("looks_ahead", [False, True])
def test_the_budget_ends_requests_that_are_always_wasted(depth: int, looks_ahead: bool) -> None:
    times = TurnTimes(generation=40, draft=1, tool=5)
    ahead = TurnAhead(depth=depth, max_wasted=2)
    _, _, report, model = run(times, ahead=ahead, text="let me see", looks_ahead=looks_ahead)
    assert report.ahead.wasted == 2
    assert len(model.requests) == TURNS + 1 + 2


@pytest.mark.parametrize(("result", "kept"), [({"a": [1, "é"]}, 0), ({"a": 1}, TURNS)])
def test_results_in_another_form_are_another_history(result: Any, kept: int) -> None:
    _, _, report, _ = run(TurnTimes(40, 1, 5), ahead=TurnAhead(depth=100), result=result)
    assert report.ahead.kept == kept


def test_a_request_that_failed_ahead_is_sent_again_when_it_is_due() -> None:
    class Flaky(Script):
        async def __call__(self, messages: Sequence[Message], tools: Sequence[Message]) -> Message:
            answer = await super().__call__(messages, tools)
            if steps_taken(messages) == 1 and self.requests.count(1) == 1:
                raise ConnectionError
            return answer

    *_, model = run(TurnTimes(40, 1, 5), ahead=TurnAhead(), model=Flaky(40), requests=3)
    assert model.requests.count(1) == 2


def test_closing_the_session_cancels_requests_sent_ahead() -> None:
    _, took, _, model = run(TurnTimes(40, 1, 1), ahead=TurnAhead(depth=2), requests=1)
    assert took == 40
    assert model.cancelled == 2
