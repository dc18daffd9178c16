"""The attainment of Eq. 6 falls with everything that makes the engine side worse; the bench itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentrt.bench.common.estimates import Estimate, exact
from agentrt.bench.common.report import Seeds
from agentrt.bench.documentation.drawings import draw
from agentrt.bench.toolcache import main as toolcache
from agentrt.bench.toolcache import tasks
from agentrt.bench.toolcache.agents import Done
from agentrt.bench.toolcache.figures import (
    Case,
    Compared,
    attainments,
    phases_table,
    reasoning_table,
    task_figures,
    verdicts_table,
)
from agentrt.bench.toolcache.sides import (
    CALLS_DRAFTED,
    CLIENT_SIDE,
    ENGINE_SIDE,
    ENGINE_SIDES,
    O2_ONLY,
    O3_ONLY,
    PREFIX_CACHED,
    VANILLA,
)
from agentrt.bench.toolcache.tasks import Task
from agentrt.calls import ToolCall

from .bfcl import write_bfcl

REASONING = 801
DECODE_S = 0.001
CALL_TOKENS = 41
TOOL_S = 0.2
ROUND_TRIP_S = 0.004
CALL_S = DECODE_S * CALL_TOKENS
REST_S = 0.01


def done(call_s: float, tool_s: float, round_trip_s: float, *, in_engine: bool = False) -> Done:
    """A task whose parts take these times; the reasoning takes 0.8 s."""
    reasoned = 0.02 + DECODE_S * (REASONING - 1)
    return Done(
        first_s=0.02,
        reasoned_s=reasoned,
        called_s=reasoned + call_s,
        ready_s=0.0 if in_engine else reasoned + call_s + tool_s,
        resumed_s=reasoned + call_s + tool_s + round_trip_s,
        elapsed_s=reasoned + call_s + tool_s + round_trip_s + REST_S,
        prompt_tokens=100,
        first_tokens=REASONING + CALL_TOKENS,
        in_engine=in_engine,
    )


CACHED = done(CALL_S, TOOL_S, ROUND_TRIP_S)
CLIENT = done(CALL_S, 0.0, ROUND_TRIP_S)
ENGINE = done(DECODE_S, 0.0, 0.0, in_engine=True)


def attained(engine: Done, tool_s: float = TOOL_S, reasoning: int = REASONING) -> dict[str, float]:
    return {name: each.value for name, each in attainments([compared(engine, tool_s, reasoning)]).items()}


def compared(engine: Done, tool_s: float = TOOL_S, reasoning: int = REASONING) -> Compared:
    task = Task("go", ToolCall("cd", {}), "there", tool_s, [], reasoning)
    sides = {VANILLA: CACHED, PREFIX_CACHED: CACHED, ENGINE_SIDE: engine}
    sides |= dict.fromkeys((CLIENT_SIDE, CALLS_DRAFTED, O2_ONLY, O3_ONLY), CLIENT)
    of_cases = {Case(side): done for side, done in sides.items()}
    return Compared(task, {**of_cases, Case(ENGINE_SIDE, 0.0): CACHED}, ROUND_TRIP_S)


def test_a_saving_is_shown_only_where_its_interval_leaves_0() -> None:
    def verdict(*engine: Done) -> dict[object, object]:
        table = verdicts_table(task_figures([compared(each) for each in engine]))
        return {row[0]: row[-1] for row in table.rows}

    name = "extra_time_saved_pct_over_client_side"
    slow = done(CALL_S, 0.0, 3 * ROUND_TRIP_S)
    assert verdict(*[ENGINE] * 8)[name] == "saves"
    assert verdict(*[slow] * 8)[name] == "costs"
    assert verdict(*[ENGINE, slow] * 4)[name] == "not shown"
    assert verdict(ENGINE)[name] == "not shown", "one task has no interval"


def test_time_saved_is_compared_within_a_task() -> None:
    figures = task_figures([compared(ENGINE)] * 4)
    saved_s = CLIENT.elapsed_s - ENGINE.elapsed_s
    assert figures["extra_time_saved_pct_over_client_side"].value == pytest.approx(
        100 * saved_s / CACHED.elapsed_s
    )
    assert figures["extra_ms_saved_over_client_side"].value == pytest.approx(1000 * saved_s)
    assert figures["engine_alpha0_slowdown_pct"] == exact(0).model_copy(update={"samples": 4})


def test_the_parts_of_a_turn_add_up() -> None:
    *parts, whole = phases_table([compared(ENGINE)] * 3).rows
    saved = {str(row[0]): row[3].value for row in parts}  # type: ignore[union-attr]
    assert sum(saved.values()) == pytest.approx(whole[3].value)  # type: ignore[union-attr]
    assert saved["the call (O2)"] == pytest.approx(1000 * (CALL_S - DECODE_S))
    assert saved["from there to the next word (O3)"] == pytest.approx(1000 * ROUND_TRIP_S)


def test_longer_reasoning_takes_the_measured_time_of_a_token() -> None:
    measured, *computed = reasoning_table([compared(ENGINE)] * 3).rows
    assert measured[:2] == (REASONING, "measured")
    twice = next(row for row in computed if row[0] == 1600)
    saved_s, more_s = CLIENT.elapsed_s - ENGINE.elapsed_s, (1600 - REASONING) * DECODE_S
    assert twice[2].value == pytest.approx(100 * saved_s / (CACHED.elapsed_s + more_s))  # type: ignore[union-attr]


def test_an_engine_that_does_what_eq_6_says_attains_all_of_it() -> None:
    assert attained(ENGINE) == {
        "eq6_attainment": pytest.approx(1.0),
        "eq6_attainment_over_client_side": pytest.approx(1.0),
    }


@pytest.mark.parametrize(
    ("worse", "over_client"),
    [
        pytest.param(done(DECODE_S, 0.0, ROUND_TRIP_S), 40 / 44, id="without O3"),
        pytest.param(done(CALL_S, 0.0, 0.0, in_engine=True), 4 / 44, id="without O2"),
        pytest.param(CLIENT, 0.0, id="submitted too late, or not at all"),
        pytest.param(CACHED, -200 / 44, id="alpha of 0"),
        pytest.param(done(CALL_S, 0.0, 2 * ROUND_TRIP_S), -4 / 44, id="a submission that costs time"),
        # Tasks are chosen by their latency, known before the run, and not by how it went.
        pytest.param(dataclasses.replace(CLIENT, in_engine=False), 0.0, id="not answered by the engine"),
    ],
)
def test_it_falls_with_what_makes_the_engine_worse(worse: Done, over_client: float) -> None:
    found = attained(worse)
    assert found["eq6_attainment"] < 0.999
    assert found["eq6_attainment_over_client_side"] == pytest.approx(over_client, abs=1e-6)


@pytest.mark.parametrize(("tool_s", "reasoning"), [(0.76, REASONING), (TOOL_S, 0), (TOOL_S, 1)])
def test_tools_that_outlast_the_reasoning_are_left_out(tool_s: float, reasoning: int) -> None:
    assert attained(ENGINE, tool_s, reasoning) == {}


@pytest.mark.bench
@pytest.mark.usefixtures("prediction_is_free")
def test_the_bench_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_bfcl(tmp_path, 2)
    measured: list[Compared] = []
    of_tasks = toolcache.task_figures

    def noted(short: Sequence[Compared]) -> dict[str, Estimate]:
        measured.extend(short)
        return of_tasks(short)

    monkeypatch.setattr(toolcache, "task_figures", noted)
    tasks_of_seed = {"short": 2, "long": 1}
    size = toolcache.Size(1, tasks_of_seed, requests=2, reasoning_tokens=200, throughput_tasks=2)
    monkeypatch.setattr(toolcache, "SIZES", {True: size})
    monkeypatch.setattr(toolcache, "LATENCIES", {"short": 0.0, "long": 0.2})
    monkeypatch.setattr(tasks, "DRAFT_S", 0.0)
    told: list[str] = []
    report = toolcache.run(quick=True, workloads=tmp_path, progress=told.append, seeds=Seeds(2, 3))
    assert [line.split(",")[0] for line in told] == ["tasks of seed 3", "tasks of seed 4", "what HTTP adds"]
    figures = report.figures
    assert figures["tokens_identical"].value == 1
    assert all(each.has_interval for each in figures.values())
    assert {
        "eq6_attainment",
        "eq6_attainment_over_client_side",
        "extra_time_saved_pct_over_client_side",
        "extra_ms_saved_over_client_side",
        "extra_ms_saved_over_drafted_calls",
        "engine_alpha0_slowdown_pct",
        "reasoning_slowdown_pct",
        "o2_call_ms_saved",
        "o3_reentry_ms_saved",
        "throughput_ratio_m8",
        "server_overhead_ms_p50",
        "stream_ttft_overhead_ms_p50",
    } <= set(figures)
    sides, verdicts = report.tables
    names = ("vanilla", "prefix-cached", "client-side", "client-side, calls drafted", "engine-side")
    assert [row[:2] for row in sides.rows[:5]] == [("short", side) for side in names]
    assert [row[-1].value for row in sides.rows[:5]] == [0] * 4 + [1], (
        "only the engine side is answered there"
    )
    assert {row[-1] for row in verdicts.rows} <= {"saves", "costs", "not shown"}
    assert len(measured) == 4, "two tasks of each seed"
    for each in measured:
        answering = {side for side in ENGINE_SIDES if each.done(side).in_engine}
        assert answering == {O3_ONLY, ENGINE_SIDE}, "the switch of O3 works"
    (drawn,) = draw(report, tmp_path)
    picture = drawn.read_text(encoding="utf-8")
    assert all(word in picture for word in ("prefix-cached", "client-side", "engine-side", "short", "long"))


@pytest.mark.bench
@pytest.mark.usefixtures("prediction_is_free")
def test_a_given_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_bfcl(tmp_path, 2)
    size = toolcache.Size(1, {"short": 2}, requests=2, reasoning_tokens=40, max_tokens=160)
    monkeypatch.setattr(toolcache, "MODEL_SIZES", {True: size})
    monkeypatch.setattr(toolcache, "LATENCIES", {"short": 0.0})
    report = toolcache.run(
        quick=True, workloads=tmp_path, progress=lambda line: None, seeds=Seeds(1, 0), model="nano-draft"
    )
    assert report.bench == "toolcache_models"
    assert report.figures["decode_ms"].value > 0
    assert report.figures["call_tokens"].value > 1
    assert "throughput_ratio_m8" not in report.figures
    assert [table.title for table in report.tables][2:] == [
        "where a turn's time goes",
        "what the engine side saves over the client side, by the tokens before a call",
    ]
