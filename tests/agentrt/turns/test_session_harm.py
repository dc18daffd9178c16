"""Tools, predictors and observers that fail or run wild do no harm, and bounds hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt import DraftRequest, SpeculationConfig, SpeculationSession, ToolCall, speculable
from agentrt.reports.events import PredictorEnded, SpeculationEvent
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools.speculable import speculable_tool
from tests.agentrt.turns.sessions import call, one_turn, slow_tool


def test_a_tool_that_would_end_the_process_is_a_miss() -> None:
    @speculable
    async def look(q: str) -> str:
        raise SystemExit(3)

    async def main() -> None:
        async with SpeculationSession([look], [ScriptedSpeculator([call("a")])]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([])

    run_in_virtual_time(main)


def test_having_no_thread_left_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise RuntimeError("can't start new thread")

    @speculable
    def look(q: str) -> str:
        return f"found {q}"

    async def main() -> tuple[str, str]:
        async with SpeculationSession([look], [ScriptedSpeculator([call("a")])]) as session:
            with monkeypatch.context() as patched:
                patched.setattr("agentrt.tools.runner.start_in_thread", refuse)
                with session.turn([], []) as turn:
                    await asyncio.sleep(1)
                    turn.bind([call("a")])
            answer = await session.acall(call("a"))
        return answer, session.report().turns[0].calls[0].reason

    assert run_in_virtual_time(main) == ("found a", "the speculation failed with RuntimeError")


def test_a_failed_draft_is_a_miss_and_the_real_error_is_the_users() -> None:
    attempts: list[int] = []

    @speculable
    async def look(q: str) -> str:
        attempts.append(1)
        raise LookupError(f"attempt {len(attempts)}")

    async def main() -> None:
        async with SpeculationSession([look], [ScriptedSpeculator([call("a")])]) as session:
            with pytest.raises(LookupError, match="attempt 2"):
                await one_turn(session, 1, call("a"))

    run_in_virtual_time(main)


@pytest.mark.parametrize(
    ("draft", "problem"),
    [
        (ToolCall("unknown", {}), "no speculable tool of this name"),
        (ToolCall("look", {"q": ["not", "text"]}), "bad arguments (ValidationError)"),
        (ToolCall("look", {}), "bad arguments (InvalidRequestError)"),
        (ToolCall("look", {"q": "x" * 2**20}), "bad arguments (InvalidRequestError)"),
        (ConnectionError("refused"), "failed: ConnectionError"),
    ],
)
def test_bad_drafts_do_no_harm_and_are_reported(draft: ToolCall | Exception, problem: str) -> None:
    runs: list[str] = []

    async def main() -> SpeculationSession:
        async with SpeculationSession([slow_tool(1, runs)], [ScriptedSpeculator([draft])]) as session:
            assert (await one_turn(session, 1, call("a")))[0] == "found a"
        return session

    report = run_in_virtual_time(main).report()
    assert problem in report.turns[0].problems[0]
    assert runs == ["a"]


RECURSIVE: dict[str, Any] = {}
RECURSIVE["q"] = RECURSIVE


class Wild:
    """A predictor that does what predictors must not do."""

    def __init__(self, *drafts: Any, endless: bool = False) -> None:
        self._drafts = drafts
        self._endless = endless

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        for draft in self._drafts:
            if isinstance(draft, BaseException):
                raise draft
            yield draft
        while self._endless:
            yield call("never the right one")


@pytest.mark.parametrize(
    "predictor",
    [
        Wild(ToolCall("look", RECURSIVE)),
        Wild(ToolCall("look", {"q": float("nan")})),
        Wild({"name": "look"}),
        Wild(None),
        Wild(ToolCall(None, None)),  # type: ignore[arg-type]
        Wild(SystemExit(3)),
        Wild(endless=True),
        SimpleNamespace(drafts=3),
    ],
)
def test_a_predictor_that_runs_wild_is_not_noticed(predictor: Any) -> None:
    async def main() -> tuple[str, float]:
        async with SpeculationSession([slow_tool(2, [])], [predictor]) as session:
            return await one_turn(session, 5, call("a"))

    assert run_in_virtual_time(main) == ("found a", 7)


def test_an_error_of_the_callers_comes_out_as_it_is() -> None:
    async def main() -> None:
        async with SpeculationSession([slow_tool(100, [])], [ScriptedSpeculator([call("a")])]) as session:
            with session.turn([], []):
                await asyncio.sleep(1)
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_in_virtual_time(main)


def test_nothing_confidential_is_in_events_or_logs(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    class Listener:
        def on_event(self, event: SpeculationEvent) -> None:
            seen.append(repr(event))

    @speculable
    async def look(q: str) -> str:
        raise LookupError(f"no {q} for swordfish")

    async def main() -> str:
        wild = [
            Wild(call("swordfish"), ConnectionError("key swordfish")),
            Wild(ToolCall("look", {"p": "swordfish"})),
        ]
        async with SpeculationSession([look], wild, observers=[Listener()]) as session:
            with session.turn([{"role": "user", "content": "swordfish"}], []) as turn:
                await asyncio.sleep(1)
                turn.bind([call("swordfish")])
            with pytest.raises(LookupError):
                await session.acall(call("swordfish"))
            return repr(session.report()) + str(session.report())

    with caplog.at_level(0):
        shown = run_in_virtual_time(main)
    assert "swordfish" not in shown + "".join(seen) + caplog.text
    assert len(seen) > 5


def test_the_runs_of_a_turn_and_of_a_tool_are_bounded() -> None:
    runs: list[str] = []
    look = slow_tool(5, runs)

    async def main(config: SpeculationConfig | None) -> None:
        predictor = ScriptedSpeculator([call(q) for q in "abcdefghijklmnop"])
        async with SpeculationSession([look], [predictor], config=config) as session:
            await one_turn(session, 1, call("a"))

    run_in_virtual_time(lambda: main(SpeculationConfig(max_speculations=3)))
    assert runs == ["a", "b", "c"]
    runs.clear()
    run_in_virtual_time(lambda: main(SpeculationConfig(max_speculations=100)))
    assert runs == list("abcdefgh")  # max_concurrency of the tool
    tool = speculable_tool(look)
    assert tool is not None
    assert [tool.slots.acquire(blocking=False) for _ in range(9)] == [True] * 8 + [False]  # all given back


def test_a_repeated_draft_is_not_refused_when_a_bound_is_reached() -> None:
    look = slow_tool(5, [])

    async def main(config: SpeculationConfig) -> tuple[str, ...]:
        predictor = ScriptedSpeculator([call(q) for q in "abcdefghaab"])
        async with SpeculationSession([look], [predictor], config=config) as session:
            await one_turn(session, 1, call("a"))
        return session.report().turns[0].problems

    assert run_in_virtual_time(lambda: main(SpeculationConfig(max_speculations=8))) == ()
    assert run_in_virtual_time(lambda: main(SpeculationConfig(max_speculations=9))) == ()


def test_an_observer_that_fails_is_logged_and_harmless(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def on_event(self, event: SpeculationEvent) -> None:
            raise RuntimeError("broken observer")

    async def main() -> str:
        async with SpeculationSession(
            [slow_tool(1, [])], [ScriptedSpeculator([call("a")])], observers=[Broken()]
        ) as session:
            return (await one_turn(session, 1, call("a")))[0]

    assert run_in_virtual_time(main) == "found a"
    assert "broken observer" in caplog.text


@pytest.mark.parametrize(("delay", "ended"), [(1.0, [1.0]), (3.0, [])])
def test_it_is_known_how_long_a_predictor_has_run_beside_the_model(delay: float, ended: list[float]) -> None:
    """Only while it runs can it take cores from the model."""
    events: list[SpeculationEvent] = []
    observer = SimpleNamespace(on_event=events.append)

    async def main() -> None:
        predictor = ScriptedSpeculator([call("a")], delay=delay)
        async with SpeculationSession([slow_tool(0.1, [])], predictor, observers=[observer]) as session:
            await one_turn(session, 2.0, call("b"))

    run_in_virtual_time(main)
    assert [event.ran_s for event in events if isinstance(event, PredictorEnded)] == ended
