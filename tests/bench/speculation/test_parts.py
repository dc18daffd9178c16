"""The parts of the speculation bench: in virtual time they come to exactly what the equations say."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.estimates import exact
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.report import BenchReport, Table
from agentrt.bench.documentation.drawings import draw
from agentrt.bench.speculation import controlled, turn_overhead
from agentrt.bench.speculation.agent_tasks import Task, agent_tasks
from agentrt.bench.speculation.like_for_like import PEERS, SPREAD, compare
from agentrt.bench.speculation.timed_agents import (
    SAME_INFORMATION,
    SIMULATED_DRAFTS,
    Fleet,
    Pair,
    Setup,
    SimulatedPredictor,
    Times,
    hands,
    run_fleet,
)
from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.errors import InvalidRequestError, WorkloadNotFoundError
from agentrt.testing import run_in_virtual_time

pytestmark = pytest.mark.usefixtures("prediction_is_free")


def bfcl(folder: Path, records: int, calls: int = 4) -> Path:
    def record(number: int) -> str:
        made = [{"name": "cd", "arguments": {"folder": f"{number} {step}"}} for step in range(calls)]
        turn = {"messages": [{"role": "user", "content": "go"}], "ground_truth": made}
        return json.dumps({"id": f"multi_turn_{number}", "turns": [turn], "extra": 1})

    (folder / "bfcl_multi_turn.jsonl").write_text("\n".join(map(record, range(records))) + "\n")
    return folder


def test_tasks_come_from_the_folder_or_are_made_up(tmp_path: Path) -> None:
    tasks = agent_tasks(bfcl(tmp_path, 9), 5)
    assert len({task.request for task in tasks}) == 5
    assert tasks == agent_tasks(tmp_path, 5)
    assert all(len(task.calls) == 4 for task in tasks)
    assert len(agent_tasks(None, 3)) == 3
    with pytest.raises(WorkloadNotFoundError, match="9 tasks"):
        agent_tasks(tmp_path, 10)
    with pytest.raises(WorkloadNotFoundError, match="no file"):
        agent_tasks(tmp_path / "elsewhere", 1)


def simulated(seeds: Sequence[int] = (0,)) -> controlled.Controlled:
    """The simulated part of the bench on little work, at the paper's times."""
    tasks = agent_tasks(None, 64)
    size = dataclasses.replace(controlled.QUICK, scale=1.0)
    return controlled.Controlled(tasks, size, seeds, lambda line: None)


@pytest.mark.bench
def test_in_virtual_time_all_of_the_optimum_is_attained() -> None:
    bench = simulated()
    run_in_virtual_time(bench.measure)
    run_in_virtual_time(bench.sweep)
    figures = {name: each.value for name, each in bench.figures.items()}
    assert figures["model_attainment"] == pytest.approx(1.0)
    assert figures["alpha0_slowdown_pct"] == pytest.approx(0.0, abs=1e-9)
    assert figures["turn_ahead_speedup"] > 3.5
    assert figures["throughput_m32_ratio"] > 1.2
    assert bench.equal == bench.pairs
    samples = next(table for table in bench.tables if table.title.startswith("samples"))
    rates = [row[2].value for row in samples.rows if row[0] == samples.rows[0][0]]
    assert rates == sorted(rates)  # more samples, more claims
    assert rates[0] < rates[-1]
    assert all("simulated" in str(row[0]) for row in samples.rows)


def test_drafts_that_come_late_show_in_the_attainment(monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = SimulatedPredictor.drafts

    async def late(self: SimulatedPredictor, request: DraftRequest) -> AsyncIterator[ToolCall]:
        await asyncio.sleep(1.0)
        async for call in drafts(self, request):
            yield call

    monkeypatch.setattr(SimulatedPredictor, "drafts", late)
    bench = simulated()
    run_in_virtual_time(bench._attainment)
    assert bench.figures["model_attainment"].value < 0.7


def test_a_seed_draws_anew_and_the_same_seed_the_same() -> None:
    def measured(seeds: Sequence[int]) -> tuple[object, ...]:
        bench = simulated(seeds)
        run_in_virtual_time(bench._latencies)
        return bench.tables[0].rows

    assert measured([0]) == measured([0]) != measured([1])
    assert all(row[2].samples == 3 for row in measured([0, 1, 2]))  # type: ignore[index]


def test_throughput_is_the_mean_over_the_agents() -> None:
    fleet = Fleet((10.0, 40.0), (5, 5), (), 1.0, 1.0)
    assert fleet.tokens_per_second == pytest.approx((80 * 5 / 10 + 80 * 5 / 40) / 2)
    assert Pair(fleet, dataclasses.replace(fleet, seconds=(5.0, 40.0))).saved_pct == pytest.approx(25.0)


def test_no_agent_gets_a_task_twice() -> None:
    tasks = agent_tasks(None, 6)
    for hand in hands(tasks, 5, 4):
        assert len({task.id for task in hand}) == 4


def test_a_fleet_says_the_same_with_any_drafts() -> None:
    tasks = agent_tasks(None, 6)
    dealt = hands(tasks, 3, 2)
    times = Times(2.0, 0.2, 1.5, 0.2)
    plain = run_in_virtual_time(lambda: run_fleet(dealt, times, None))
    fast = run_in_virtual_time(lambda: run_fleet(dealt, times, Setup(chance=0.5, samples=3)))
    assert plain.transcripts == fast.transcripts
    assert plain.claim_rate == 0
    assert 0 < fast.claim_rate < 1
    assert fast.draft_tokens[1] > 0


@pytest.mark.parametrize("calls_a_turn", [2, 4])
@pytest.mark.parametrize(("peer", "figure", "sides_of"), PEERS)
def test_on_the_same_information_the_peers_are_no_faster(
    calls_a_turn: int, peer: str, figure: str, sides_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def platform() -> str:
        return "Linux"

    # The client asks for the platform's name in a thread, for which virtual time does not wait.
    monkeypatch.setattr("openai._base_client.asyncify", lambda function: platform)
    tasks = [
        Task(f"{task}", f"task {task}", tuple(ToolCall("look", {"q": f"{task} {step}"}) for step in range(4)))
        for task in range(4)
    ]
    sides = run_in_virtual_time(lambda: compare(sides_of, tasks, Times(20, 2, 20, SPREAD), calls_a_turn))
    same, simulated = sides[SAME_INFORMATION], sides[SIMULATED_DRAFTS]
    assert sides[peer].transcripts == same.transcripts == simulated.transcripts
    assert sides[peer].seconds >= same.seconds - 1e-6
    assert sides[peer].seconds > 1.2 * simulated.seconds
    if "plain" in sides:  # the stream says enough to gain something by it
        assert sides["plain"].seconds > 1.03 * same.seconds


def test_the_overhead_of_turns_is_that_of_turns_that_claimed() -> None:
    figures = turn_overhead.overhead_figures(20)
    assert figures.keys() == {"sdk_overhead_claimed_turn_ms_p50", "sdk_overhead_turns_claimed"}
    assert figures["sdk_overhead_turns_claimed"].value == 1
    assert figures["sdk_overhead_claimed_turn_ms_p50"].has_interval


@pytest.mark.bench
def test_the_figures_are_drawn_from_the_report(tmp_path: Path) -> None:
    bench = simulated((0, 1))

    async def some() -> None:
        await bench._latencies()
        await bench._samples()

    run_in_virtual_time(some)
    patterns = Table(
        title="time saved by tool latency, drafts from patterns (Figure 6)",
        columns=("drafts", "tool s", "saved %"),
        rows=(("patterns, held back", 1.5, exact(12.0)),),
    )
    report = BenchReport(
        bench="speculation",
        machine=describe_machine(),
        figures={},
        tables=(*bench.tables, patterns),
        method="",
    )
    files = draw(report, tmp_path)
    assert [b"patterns, held back" in file.read_bytes() for file in files] == [False, True, False]
    drawn = [file.read_bytes() for file in files]
    assert all(b"SpecTools, Fig. " in each for each in drawn)
    draw(report, tmp_path)
    assert [file.read_bytes() for file in files] == drawn
    with pytest.raises(InvalidRequestError, match="agentrt bench speculation"):
        draw(report.model_copy(update={"tables": ()}), tmp_path)
