"""The parts of the speculation bench: in virtual time they come to exactly what the equations say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentrt.bench.common.figures import draw
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.report import BenchReport
from agentrt.bench.speculation import controlled
from agentrt.bench.speculation.agent_tasks import agent_tasks
from agentrt.bench.speculation.openai_peer import compare_openai
from agentrt.bench.speculation.overhead import overhead_ms
from agentrt.bench.speculation.peers import compare, streamed_tasks
from agentrt.bench.speculation.timed_agents import Setup, Times, run_fleet
from agentrt.calls import ToolCall
from agentrt.errors import InvalidRequestError, WorkloadNotFoundError
from agentrt.testing import run_in_virtual_time


def bfcl(folder: Path, records: int, calls: int = 4) -> Path:
    def record(number: int) -> str:
        made = [{"name": "cd", "arguments": {"folder": f"{number} {step}"}} for step in range(calls)]
        turn = {"messages": [{"role": "user", "content": "go"}], "ground_truth": made}
        return json.dumps({"id": f"multi_turn_{number}", "turns": [turn], "extra": 1})

    (folder / "bfcl_multi_turn.jsonl").write_text("\n".join(map(record, range(records))) + "\n")
    return folder


def test_tasks_come_from_the_folder_or_are_made_up(tmp_path: Path) -> None:
    source, tasks = agent_tasks(bfcl(tmp_path, 9), 5)
    assert source.startswith("BFCL")
    assert len({task.request for task in tasks}) == 5
    assert tasks == agent_tasks(tmp_path, 5)[1]
    assert all(len(task.calls) == 4 for task in tasks)
    assert agent_tasks(None, 3)[0].startswith("made-up")
    with pytest.raises(WorkloadNotFoundError, match="9 tasks"):
        agent_tasks(tmp_path, 10)
    with pytest.raises(WorkloadNotFoundError, match="no file"):
        agent_tasks(tmp_path / "elsewhere", 1)


@pytest.mark.bench
def test_in_virtual_time_all_of_the_optimum_is_attained() -> None:
    _, tasks = agent_tasks(None, 64)
    bench = controlled.Controlled(tasks, 1.0, True, lambda line: None)
    run_in_virtual_time(bench._run)
    figures = bench.figures
    assert figures["model_attainment"] == pytest.approx(1.0)
    assert figures["alpha0_slowdown_pct"] == pytest.approx(0.0)
    assert figures["turn_ahead_speedup"] > 3.5
    assert figures["throughput_m32_ratio"] > 1.2
    assert bench.equal == bench.pairs
    samples = next(table for table in bench.tables if table.title.startswith("samples"))
    rates = [row[2] for row in samples.rows if row[0] == controlled.CHANCES[0]]
    assert rates == sorted(rates)  # more samples, more claims
    assert rates[0] < rates[-1]


def test_a_fleet_says_the_same_with_any_drafts() -> None:
    _, tasks = agent_tasks(None, 6)
    times = Times(2.0, 0.2, 1.5, 0.2)
    plain = run_in_virtual_time(lambda: run_fleet(tasks, times, 3, None))
    fast = run_in_virtual_time(lambda: run_fleet(tasks, times, 3, Setup(chance=0.5, samples=3)))
    assert plain.transcripts == fast.transcripts
    assert plain.claim_rate == 0
    assert 0 < fast.claim_rate < 1
    assert fast.draft_s == pytest.approx(0.2)
    assert fast.draft_tokens[1] > 0


@pytest.mark.parametrize("calls_a_turn", [1, 2])
def test_the_peers_do_the_same_tasks_later(calls_a_turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def platform() -> str:
        return "Linux"

    # The client asks for the platform's name in a thread, for which virtual time does not wait.
    monkeypatch.setattr("openai._base_client.asyncify", lambda function: platform)
    calls = [[ToolCall("look", {"q": f"{task} {step}"}) for step in range(4)] for task in range(2)]
    tasks = streamed_tasks(calls, calls_a_turn)
    times = Times(20, 2, 20)
    results = run_in_virtual_time(lambda: compare(tasks, times))
    assert results["plain"][1] == results["agentrt"][1] == results["eager-tools-langgraph"][1]
    assert results["eager-tools-langgraph"][0] > 1.4 * results["agentrt"][0]
    openai = run_in_virtual_time(lambda: compare_openai(tasks, times))
    assert openai["agentrt"][1] == openai["openai eager runner"][1]
    assert openai["openai eager runner"][0] > 1.4 * openai["agentrt"][0]


def test_the_overhead_is_measured() -> None:
    median, p99 = asyncio.run(overhead_ms(20))
    assert median <= p99


@pytest.mark.bench
def test_the_figures_are_drawn_from_the_report(tmp_path: Path) -> None:
    _, tasks = agent_tasks(None, 8)
    bench = controlled.Controlled(tasks, 1.0, True, lambda line: None)

    async def some() -> None:
        await bench._latencies()
        await bench._samples()

    run_in_virtual_time(some)
    report = BenchReport(
        bench="speculation", machine=describe_machine(), figures={}, tables=tuple(bench.tables), method=""
    )
    files = draw(report, tmp_path)
    drawn = [file.read_bytes() for file in files]
    assert all(b"SpecTools, Fig. " in each for each in drawn)
    draw(report, tmp_path)
    assert [file.read_bytes() for file in files] == drawn
    with pytest.raises(InvalidRequestError, match="agentrt bench speculation"):
        draw(report.model_copy(update={"tables": ()}), tmp_path)
