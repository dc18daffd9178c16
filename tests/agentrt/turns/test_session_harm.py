"""Tools, predictors and observers that fail or run wild do no harm, and bounds hold."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from agentrt import DraftRequest, SpeculationConfig, SpeculationSession, ToolCall, speculable
from agentrt.drafts import name_of
from agentrt.reports.events import PredictorEnded, SpeculationEvent
from agentrt.speculators import EnsembleSpeculator
from agentrt.testing import run_in_virtual_time
from agentrt.tools.speculable import speculable_tool
from tests.agentrt.loops import in_virtual_time, on_a_loop
from tests.agentrt.turns.sessions import call, drafting, drive, one_turn, slow_tool


class Stop(BaseException):
    """An error that is no Exception, as frameworks have them to stop a run."""


ENDS = (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Stop)


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("kind", ENDS)
@on_a_loop
async def test_a_tool_that_would_end_the_program_is_a_miss(kind: type[BaseException], is_async: bool) -> None:
    runs: list[str] = []
    ran = threading.Event()

    def look(q: str) -> str:
        runs.append(q)
        ran.set()
        if len(runs) == 1:
            raise kind
        raise LookupError("that of the real call")

    async def alook(q: str) -> str:
        return look(q)

    alook.__name__ = "look"
    tool = speculable(alook if is_async else look)
    async with SpeculationSession([tool], drafting(call("a"))) as session:
        with session.turn([], []) as turn:
            assert await asyncio.to_thread(ran.wait, 20)
            turn.bind([call("a")])
        with pytest.raises(LookupError, match="that of the real call"):
            await session.acall(call("a"))
    (made,) = session.report().turns[0].calls
    assert (made.hit, made.reason) == (False, f"the speculation failed with {kind.__name__}")


@pytest.mark.parametrize("kind", ENDS)
def test_other_code_of_the_user_that_would_end_the_program_costs_only_speculation(
    kind: type[BaseException],
) -> None:
    failing = True

    def fail(*args: Any, **kwargs: Any) -> Any:
        if failing:
            raise kind
        return kwargs or True

    async def prepare(q: str) -> str:
        return q

    async def commit(prepared: str) -> str:
        return f"found {prepared}"

    async def discard(prepared: str) -> None:
        raise kind

    class Broken:
        on_event = learn = fail

        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            raise kind
            yield

    async def prompt(q: str) -> str:
        return f"found {q}"

    prompt.__name__ = "look"
    options: list[dict[str, Any]] = [
        {"guard": fail},
        {"canonical": fail},
        {"prepare": prepare, "commit": commit, "discard": discard},
    ]

    for each in options:
        broken = Broken()
        predictors = [broken, drafting(call("a"), call("b"))]
        driven = drive(speculable(**each)(prompt), predictors, [call("a")], observers=[broken])
        assert driven.results == ["found a"]


def validated(q: str) -> str:
    if q == "wrong":
        raise SystemExit
    return q


def test_a_validator_that_would_end_the_program_makes_the_draft_a_bad_one() -> None:
    @speculable
    async def look(q: Annotated[str, AfterValidator(validated)]) -> str:
        return f"found {q}"

    driven = drive(look, drafting(call("wrong"), call("a")), [call("a")])
    assert (driven.results, driven.report.total.claims) == (["found a"], 1)


def test_a_ctrl_c_of_the_user_during_a_speculation_ends_the_program() -> None:
    @speculable
    async def look(q: str) -> str:
        signal.raise_signal(signal.SIGINT)  # as the terminal sends it
        return q

    async def main() -> None:
        async with SpeculationSession([look], drafting(call("a"))) as session:
            await one_turn(session, 1, call("b"))

    loop = asyncio.new_event_loop()  # asyncio.run() has a handler of its own, which cancels the main task
    unretrieved: list[Any] = []
    loop.set_exception_handler(lambda _, context: unretrieved.append(context))
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(main())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
            del task
        loop.close()
    gc.collect()
    assert unretrieved == [], "it has ended the program, and is not reported a second time"


@in_virtual_time
async def test_having_no_thread_left_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise RuntimeError("can't start new thread")

    @speculable
    def look(q: str) -> str:
        return f"found {q}"

    async with SpeculationSession([look], drafting(call("a"))) as session:
        with monkeypatch.context() as patched:
            patched.setattr("agentrt.tools.runner.start_in_thread", refuse)
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([call("a")])
        assert await session.acall(call("a")) == "found a"
    assert session.report().turns[0].calls[0].reason == "the speculation failed with RuntimeError"


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
        Wild(ToolCall("look", {"q": float("nan")})),
        Wild(ToolCall(None, None)),  # type: ignore[arg-type]
        Wild(SystemExit(3)),
        Wild(endless=True),
        SimpleNamespace(drafts=3),
    ],
)
def test_a_predictor_that_runs_wild_is_not_noticed(predictor: Any) -> None:
    driven = drive(slow_tool(2, []), [predictor], [call("a")], generation_s=5)
    assert (driven.results, driven.seconds) == (["found a"], 7)


@pytest.mark.parametrize(
    ("draft", "problem"),
    [
        (ToolCall("unknown", {}), "no speculable tool of this name"),
        (ToolCall("look", {"q": ["not", "text"]}), "bad arguments (ValidationError)"),
        (ToolCall("look", {"p": "no such parameter"}), "bad arguments (InvalidRequestError)"),
        (ToolCall("look", {"q": "x" * 2**20}), "bad arguments (InvalidRequestError)"),
        (ToolCall("look", None), "bad arguments (AttributeError)"),  # type: ignore[arg-type]
        (ToolCall("look", RECURSIVE), "bad arguments (RecursionError)"),
        (ToolCall(["look"], {}), "no speculable tool of this name"),  # type: ignore[arg-type]
        ({"name": "look", "arguments": {"q": "a"}}, "an object of type dict is no ToolCall"),
        (None, "an object of type NoneType is no ToolCall"),
    ],
)
@pytest.mark.parametrize("in_ensemble", [False, True])
def test_an_invalid_draft_is_counted_and_those_after_it_are_taken(
    draft: Any, problem: str, in_ensemble: bool
) -> None:
    wild = Wild(draft, call("a"))
    predictor = EnsembleSpeculator([wild]) if in_ensemble else wild
    driven = drive(slow_tool(1, []), predictor, [call("a")], generation_s=5)
    assert (driven.results, driven.report.total.claims) == (["found a"], 1)
    report = driven.report.predictors[name_of(predictor)]
    arguments = getattr(draft, "arguments", None) or {}
    # An ensemble drops what has no key.
    dropped = in_ensemble and (arguments is RECURSIVE or len(str(arguments.get("q"))) > 2**18)
    assert (report.invalid, report.failures, report.correct) == (int(not dropped), 0, 1)
    assert dropped or problem in driven.report.turns[0].problems[0]


def test_nothing_confidential_is_in_events_or_logs(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    listener = SimpleNamespace(on_event=lambda event: seen.append(repr(event)))

    @speculable
    async def look(q: str) -> str:
        raise LookupError(f"no {q} for swordfish")

    async def main() -> str:
        wild = [
            Wild(call("swordfish"), ConnectionError("key swordfish")),
            Wild(ToolCall("look", {"p": "swordfish"})),
        ]
        async with SpeculationSession([look], wild, observers=[listener]) as session:
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

    for most, started in ((3, "abc"), (100, "abcdefgh")):  # the second by max_concurrency of the tool
        config = SpeculationConfig(max_speculations=most)
        drive(look, drafting(*map(call, "abcdefghijklmnop")), [call("a")], config=config)
        assert runs == list(started)
        runs.clear()
    tool = speculable_tool(look)
    assert tool is not None
    assert [tool.slots.acquire(blocking=False) for _ in range(9)] == [True] * 8 + [False]  # all given back


@pytest.mark.parametrize("most", [8, 9])
def test_a_repeated_draft_is_not_refused_when_a_bound_is_reached(most: int) -> None:
    predictor = drafting(*map(call, "abcdefghaab"))
    config = SpeculationConfig(max_speculations=most)
    driven = drive(slow_tool(5, []), predictor, [call("a")], config=config)
    assert driven.report.turns[0].problems == ()


@pytest.mark.parametrize(("delay", "ended"), [(1.0, [1.0]), (3.0, [])])
def test_it_is_known_how_long_a_predictor_has_run_beside_the_model(delay: float, ended: list[float]) -> None:
    """Only while it runs can it take cores from the model."""
    events: list[SpeculationEvent] = []
    observer = SimpleNamespace(on_event=events.append)

    predictor = drafting(call("a"), delay=delay)
    drive(slow_tool(0.1, []), predictor, [call("b")], generation_s=2.0, observers=[observer])
    assert [event.ran_s for event in events if isinstance(event, PredictorEnded)] == ended
