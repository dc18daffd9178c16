"""A session end to end: SpecTools' Algorithm 2, in virtual time where timing matters."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt import DraftRequest, SpeculationConfig, SpeculationSession, ToolCall, speculable
from agentrt.calls import TextDelta
from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.events import CallClaimed, SpeculationEvent
from agentrt.perfmodel import TurnTimes
from agentrt.speculable import speculable_tool
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time

Look = Callable[..., Coroutine[Any, Any, str]]


def slow_tool(seconds: float, runs: list[str]) -> Look:
    @speculable
    async def look(q: str) -> str:
        runs.append(q)
        await asyncio.sleep(seconds)
        return f"found {q}"

    return look


def call(q: str, id: str = "call_1") -> ToolCall:
    return ToolCall("look", {"q": q}, id)


def now() -> float:
    return asyncio.get_running_loop().time()


async def one_turn(session: SpeculationSession, generation: float, asked: ToolCall) -> tuple[str, float]:
    started = now()
    with session.turn([], []) as turn:
        await asyncio.sleep(generation)
        turn.bind([asked])
    return await session.acall(asked), now() - started


@settings(max_examples=60, deadline=None)
@given(generation=st.integers(1, 50), draft=st.integers(1, 50), tool=st.integers(1, 50), hit=st.booleans())
def test_a_turn_takes_exactly_what_equation_1_says(generation: int, draft: int, tool: int, hit: bool) -> None:
    async def main() -> float:
        predictor = ScriptedSpeculator([call("a" if hit else "wrong")], delay=draft)
        async with SpeculationSession([slow_tool(tool, [])], [predictor]) as session:
            answer, seconds = await one_turn(session, generation, call("a"))
        assert answer == "found a"
        return seconds

    # A draft that comes after the answer is no draft; one that comes with it may or may not count.
    if draft != generation:
        claimed = hit and draft < generation
        expected = TurnTimes(generation, draft, tool).speculative(1.0 if claimed else 0.0)
        assert run_in_virtual_time(main) == pytest.approx(expected)


def test_the_report_tells_hits_misses_waste_and_seconds() -> None:
    events: list[SpeculationEvent] = []

    class Observer:
        def on_event(self, event: SpeculationEvent) -> None:
            events.append(event)

    async def main() -> SpeculationSession:
        predictor = ScriptedSpeculator([call("a"), call("loser")], [call("wrong")])
        async with SpeculationSession([slow_tool(0.0, [])], [predictor], observers=[Observer()]) as session:
            await one_turn(session, 1, call("a", "1"))
            await one_turn(session, 1, call("b", "2"))
        return session

    report = run_in_virtual_time(main).report()
    assert (report.total.claims, report.total.misses, report.total.wasted) == (1, 1, 2)
    assert report.total.claim_rate == 0.5
    assert [[c.hit for c in turn.calls] for turn in report.turns] == [[True], [False]]
    assert report.turns[1].calls[0].reason == "not predicted"
    assert report.total.saved_s == pytest.approx(
        sum(event.saved_s for event in events if isinstance(event, CallClaimed))
    )


def test_one_guess_runs_once_however_often_it_is_made() -> None:
    runs: list[str] = []

    async def main() -> None:
        predictors = [ScriptedSpeculator([call("a"), call("a")]), ScriptedSpeculator([call("a")])]
        async with SpeculationSession([slow_tool(5, runs)], predictors, samples=3) as session:
            await one_turn(session, 1, call("a"))
        assert [p.requests[0].samples for p in predictors] == [3, 3]

    run_in_virtual_time(main)
    assert runs == ["a"]


def test_equal_calls_of_one_answer_share_no_result() -> None:
    runs: list[str] = []

    async def main() -> None:
        async with SpeculationSession([slow_tool(5, runs)], [ScriptedSpeculator([call("a")])]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([call("a", "1"), call("a", "2")])
            assert await session.acall(call("a", "1")) == await session.acall(call("a", "2"))
        assert session.report().turns[0].calls[1].reason == "taken by an equal call"

    run_in_virtual_time(main)
    assert runs == ["a", "a"]


def test_predictors_read_the_answer_along_and_learn_what_it_called() -> None:
    class Reader:
        def __init__(self) -> None:
            self.read: list[object] = []
            self.learned: list[tuple[str, Sequence[ToolCall]]] = []

        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            async for event in request.answer.events():
                self.read.append(event)
                yield call("a")

        def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
            self.learned.append((str(request.messages[0]["content"]), calls))
            raise LookupError

    reader = Reader()

    async def main() -> tuple[str, ...]:
        async with SpeculationSession([slow_tool(5, [])], [reader]) as session:
            with session.turn([{"role": "user", "content": "hi"}], []) as turn:
                turn.observe(TextDelta("let me see"))
                await asyncio.sleep(1)
                turn.bind([call("a")])
            assert await session.acall(call("a")) == "found a"
            with session.turn([], []):
                pass  # a turn without an answer teaches nothing, and its readers are not left waiting
        assert session.report().total.wasted == 0
        return session.report().turns[0].problems[-1:]

    assert run_in_virtual_time(main) == ("Reader failed: LookupError",)
    assert reader.read == [TextDelta("let me see")]
    assert reader.learned == [("hi", [call("a")])]


def test_losers_and_predictors_are_cancelled_when_the_model_answers() -> None:
    ended: list[str] = []

    @speculable
    async def look(q: str) -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ended.append(q)
            raise
        return q

    async def main() -> float:
        slow = ScriptedSpeculator([call("late")], delay=50)
        async with SpeculationSession([look], [ScriptedSpeculator([call("a")]), slow]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([])
        return now()

    assert run_in_virtual_time(main) == 1
    assert ended == ["a"]


def test_a_loser_is_cancelled_once_and_the_session_waits_for_its_clean_up() -> None:
    done: list[str] = []

    @speculable
    async def look(q: str) -> str:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(3)  # as a connection is given back
            await asyncio.sleep(4)
            done.append("cleaned up")
        return q

    async def main() -> float:
        async with SpeculationSession([look], [ScriptedSpeculator([call("a")])]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([])
        return now()

    assert run_in_virtual_time(main) == 1 + 3 + 4
    assert done == ["cleaned up"]


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
                patched.setattr("agentrt.early_runs.start_in_thread", refuse)
                with session.turn([], []) as turn:
                    await asyncio.sleep(1)
                    turn.bind([call("a")])
            answer = await session.acall(call("a"))
        return answer, session.report().turns[0].calls[0].reason

    assert run_in_virtual_time(main) == ("found a", "the early run failed with RuntimeError")


def test_a_turn_that_fails_leaves_nothing_running() -> None:
    runs: list[str] = []

    async def main() -> float:
        async with SpeculationSession([slow_tool(100, runs)], [ScriptedSpeculator([call("a")])]) as session:
            with contextlib.suppress(ZeroDivisionError), session.turn([], []):
                await asyncio.sleep(1)
                raise ZeroDivisionError
        return now()

    assert run_in_virtual_time(main) == 1
    assert runs == ["a"]


def test_an_error_of_the_callers_comes_out_as_it_is() -> None:
    async def main() -> None:
        async with SpeculationSession([slow_tool(100, [])], [ScriptedSpeculator([call("a")])]) as session:
            with session.turn([], []):
                await asyncio.sleep(1)
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_in_virtual_time(main)


def test_closing_the_session_cancels_what_was_bound_and_never_made() -> None:
    async def main() -> float:
        async with SpeculationSession([slow_tool(100, [])], [ScriptedSpeculator([call("a")])]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([call("a")])
        return now()

    assert run_in_virtual_time(main) == 1


def test_cancelling_the_call_cancels_its_run() -> None:
    cancelled = []

    @speculable
    async def look(q: str) -> str:
        try:
            await asyncio.sleep(100)
        finally:
            cancelled.append(q)
        return q

    async def main() -> None:
        async with SpeculationSession([look], [ScriptedSpeculator([call("a")])]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([call("a")])
            asking = asyncio.create_task(session.acall(call("a")))
            await asyncio.sleep(1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.sleep(1)
            assert cancelled == ["a"]

    run_in_virtual_time(main)


def test_an_early_run_times_out_but_not_once_it_is_asked_for() -> None:
    runs: list[str] = []

    @speculable(timeout=10)
    async def look(q: str) -> str:
        runs.append(q)
        await asyncio.sleep(30)
        return q

    async def main() -> list[float]:
        predictor = ScriptedSpeculator([call("a")], [call("a")])
        async with SpeculationSession([look], [predictor]) as session:
            times = [(await one_turn(session, generation, call("a")))[1] for generation in (5, 20)]
        assert session.report().turns[1].calls[0].reason == "the early run took longer than 10.0 s"
        return times

    assert run_in_virtual_time(main) == [30, 50]
    assert runs == ["a", "a", "a"]


def test_a_failed_guess_is_a_miss_and_the_real_error_is_the_users() -> None:
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
def test_bad_guesses_do_no_harm_and_are_reported(draft: ToolCall | Exception, problem: str) -> None:
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
        object(),
    ],
)
def test_a_predictor_that_runs_wild_is_not_noticed(predictor: Any) -> None:
    async def main() -> tuple[str, float]:
        async with SpeculationSession([slow_tool(2, [])], [predictor]) as session:
            return await one_turn(session, 5, call("a"))

    assert run_in_virtual_time(main) == ("found a", 7)


def test_what_a_tool_returns_is_handed_on_as_it_is() -> None:
    lock = threading.Lock()  # cannot be pickled, copied or compared

    @speculable
    async def look(q: str) -> Any:
        return lock

    async def main() -> Any:
        async with SpeculationSession([look], [ScriptedSpeculator([call("a")])]) as session:
            result, _ = await one_turn(session, 1, call("a"))
            assert session.report().total.claims == 1
        return result

    assert run_in_virtual_time(main) is lock


def test_calls_of_one_answer_with_one_id_are_all_made() -> None:
    runs: list[str] = []

    async def main() -> list[Any]:
        guesses = ScriptedSpeculator([call("a"), call("b")])
        async with SpeculationSession([slow_tool(1, runs)], [guesses]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(5)
                turn.bind([call("a", "same"), call("b", "same")])
            return [await session.acall(call(q, "same")) for q in "ab"]

    assert run_in_virtual_time(main) == ["found a", "found b"]
    assert runs == ["a", "b", "a", "b"]


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
        told = run_in_virtual_time(main)
    assert "swordfish" not in told + "".join(seen) + caplog.text
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


def test_a_guess_made_again_is_not_refused_when_a_bound_is_reached() -> None:
    look = slow_tool(5, [])

    async def main(config: SpeculationConfig) -> tuple[str, ...]:
        predictor = ScriptedSpeculator([call(q) for q in "abcdefghaab"])
        async with SpeculationSession([look], [predictor], config=config) as session:
            await one_turn(session, 1, call("a"))
        return session.report().turns[0].problems

    assert run_in_virtual_time(lambda: main(SpeculationConfig(max_speculations=8))) == ()
    assert run_in_virtual_time(lambda: main(SpeculationConfig(max_speculations=9))) == ()


def test_arguments_edited_after_the_answer_run_for_real() -> None:
    runs: list[str] = []

    async def main() -> str:
        async with SpeculationSession([slow_tool(1, runs)], [ScriptedSpeculator([call("a")])]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(5)
                turn.bind([call("a")])
            answer: str = await session.acall(call("edited"))
            return answer

    assert run_in_virtual_time(main) == "found edited"
    assert runs == ["a", "edited"]


def test_sync_code_speculates_in_threads() -> None:
    main_thread, started, release = threading.current_thread(), threading.Event(), threading.Event()
    runs: list[str] = []

    @speculable
    def look(q: str) -> str:
        runs.append(q)
        assert threading.current_thread() is not main_thread
        started.set()
        release.wait()
        return f"found {q}"

    with SpeculationSession([look], [ScriptedSpeculator([call("a")])]) as session:
        with session.turn([], []) as turn:
            assert started.wait(10)
            turn.bind([call("a")])
        release.set()
        assert session.call(call("a")) == "found a"
    assert runs == ["a"]


def test_a_loser_in_a_thread_runs_to_its_end_and_holds_its_place_until_then() -> None:
    started, release = threading.Event(), threading.Event()

    @speculable(max_concurrency=1)
    def look(q: str) -> str:
        started.set()
        release.wait()
        return q

    tool = speculable_tool(look)
    assert tool is not None
    with SpeculationSession([look], [ScriptedSpeculator([call("a")])]) as session:
        with session.turn([], []) as turn:
            assert started.wait(10)
            turn.bind([])
        assert not tool.slots.acquire(blocking=False)
        release.set()
        assert tool.slots.acquire(timeout=10)
    assert session.report().total.wasted == 1


def test_closing_a_sync_session_cancels_what_was_bound_and_never_made() -> None:
    started, release = threading.Event(), threading.Event()

    @speculable
    def look(q: str) -> str:
        started.set()
        release.wait()
        return q

    tool = speculable_tool(look)
    assert tool is not None
    session = SpeculationSession([look], [ScriptedSpeculator([call("a")])])
    with session, session.turn([], []) as turn:
        assert started.wait(10)
        turn.bind([call("a")])
    assert session.report().total.wasted == 1
    release.set()


def test_a_coroutine_tool_is_not_run_early_in_sync_code() -> None:
    arrived = threading.Event()

    class Observer:
        def on_event(self, event: SpeculationEvent) -> None:
            if type(event).__name__ == "DraftRefused":
                arrived.set()

    with SpeculationSession(
        [slow_tool(0, [])], [ScriptedSpeculator([call("a")])], observers=[Observer()]
    ) as session:
        with session.turn([], []) as turn:
            assert arrived.wait(10)
            turn.bind([])
        with pytest.raises(InvalidRequestError, match="async code"):
            session.call(call("a"))
    assert "a coroutine tool cannot run early" in session.report().turns[0].problems[0]


def test_two_runs_with_the_same_call_id_get_what_is_theirs() -> None:
    user: ContextVar[str] = ContextVar("user")
    runs: list[str] = []

    @speculable
    async def inbox(folder: str) -> str:
        runs.append(user.get())
        await asyncio.sleep(1)
        return f"{folder} of {user.get()}"

    opened = ToolCall("inbox", {"folder": "new"}, "call_0")

    async def serve(name: str, predictor: ScriptedSpeculator) -> str:
        user.set(name)
        async with SpeculationSession([inbox], [predictor]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(5)
                turn.bind([opened])
            await asyncio.sleep(5)  # both answers are there before either call is made
            answer: str = await session.acall(opened)
            return answer

    async def main() -> list[str]:
        guess = ScriptedSpeculator([opened], [opened])
        return await asyncio.gather(serve("ann", guess), serve("bob", guess))

    assert run_in_virtual_time(main) == ["new of ann", "new of bob"]
    assert runs == ["ann", "bob"]


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


def test_wrong_use_is_told() -> None:
    look = slow_tool(1, [])
    with pytest.raises(ConfigurationError, match="with or async with"):
        SpeculationSession([look], []).turn([], [])
    with pytest.raises(ConfigurationError, match="@speculable"):
        SpeculationSession([print], [])
    with SpeculationSession([look], []) as session:
        with pytest.raises(InvalidRequestError, match="no speculable tool 'other'"):
            session.call(ToolCall("other", {}))
        with pytest.raises(InvalidRequestError, match="refuses"):
            session.call(ToolCall("look", {"q": 1}))
