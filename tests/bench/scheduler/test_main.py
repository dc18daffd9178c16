"""The scheduler bench: its schedules, its arithmetic, and the real thing on next to no work."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.scheduler import live as _scheduler_live
from agentrt.bench.scheduler.load import Lengths, recorded_arrivals, recorded_lengths
from agentrt.bench.scheduler.sides import Arrival, Run, Served, Side
from agentrt.bench.scheduler.simulated import (
    SYSTEMS,
    Point,
    decision_us,
    figure7,
    latency_ratios,
    sustained_ratio,
)
from agentrt.runtime.nano import MODEL_DIRECTORY
from tests.bench.workload_folder import WORKLOADS, has_workloads

pytestmark = pytest.mark.bench

OURS, BASELINE, SAME_MACHINE = SYSTEMS
LENGTHS = Lengths(((40, 6),), {"short": ((60, 4), (90, 4))}, "made up")


@pytest.mark.parametrize("count", [1, 50])
def test_arrivals_without_a_trace_are_poisson_at_the_rate(count: int) -> None:
    arrivals = recorded_arrivals(None, count, 2.0, random.Random(1))
    assert len(arrivals) == count
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] == pytest.approx(count / 2, rel=1.0)


def test_arrivals_of_a_trace_keep_its_shape(tmp_path: Path) -> None:
    trace = tmp_path / "trace_azure2023_conv.jsonl"
    trace.write_text("".join(f'{{"t": {t}}}\n' for t in (0, 1, 2, 10, 11, 12, 20, 21, 22)))
    arrivals = recorded_arrivals(tmp_path, 6, 3.0, random.Random(0))
    gaps = [later - earlier for earlier, later in zip([0.0, *arrivals], arrivals, strict=False)]
    assert arrivals[-1] == pytest.approx(2.0), "six at three a second"
    assert max(gaps) == pytest.approx(8 * min(gaps)), "as far apart as they were"


def test_lengths_fit_the_model() -> None:
    assert recorded_lengths(None).source == "typical lengths"
    short = Lengths(((500, 10), (20, 5)), {"a": ((80, 1),)}, "x").fitting(60)
    assert short.reactive == ((60, 10), (20, 5))
    assert short.any_proactive() == ((60, 1),)


@pytest.mark.skipif(not has_workloads(), reason="the public workload sets are not here")
def test_lengths_of_the_public_sets() -> None:
    lengths = recorded_lengths(WORKLOADS)
    assert lengths.source == "lengths of the public sets"
    assert len(lengths.proactive) == 3
    assert all(
        prompt >= 8 and answer >= 1 for prompt, answer in (*lengths.reactive, *lengths.any_proactive())
    )


def served(first: float, waited: float, tokens: int = 600) -> Served:
    return Served(Arrival(0.0, tokens, 5, True), tokens, first, first + 1, waited)


def test_a_user_is_compared_with_the_same_user_alone() -> None:
    alone = Run((served(1.0, 0.1), served(2.0, 0.1, tokens=100)), 5)
    background = Served(Arrival(0.0, 9, 9, False), 9, 1, 1, 1)
    mixed = Run((served(1.2, 0.15), background, served(3.0, 0.05, tokens=100)), 5)
    assert list(_scheduler_live._over_unloaded([(alone, mixed)], 512)) == [1.2]
    assert list(_scheduler_live._over_unloaded([(alone, mixed)], 0)) == [1.2, 1.5]
    assert list(_scheduler_live._added_waits([(alone, mixed)])) == pytest.approx([0.05, 0.0])


def test_alone_a_user_asks_at_once_and_one_after_the_other() -> None:
    class Idle:
        def serve(self, arrivals: list[Arrival]) -> Run:
            (only,) = arrivals
            assert only.at_s == 0
            return Run((Served(only, only.prompt_tokens, 0.5, 2.0, 0.1),), 2.0)

    idle: Any = Idle()
    alone = _scheduler_live._one_by_one(idle, [Arrival(3.0, 10, 5, True), Arrival(9.0, 20, 5, True)])
    assert [one.arrival.prompt_tokens for one in alone.served] == [10, 20]
    assert alone.elapsed_s == 4.0


def test_sustained_rates_and_latency_ratios() -> None:
    points = [
        Point(system, "work", rate, None, None, ms)
        for system, latencies in ((OURS, (1, 2, 3, 50)), (BASELINE, (4, 7, 9, 10)))
        for rate, ms in zip((1.0, 2.0, 4.0, 8.0), latencies, strict=True)
    ]
    # The baseline is at 8 ms at most up to a rate of 2, we are up to 4.
    assert sustained_ratio(points, OURS, BASELINE, "work") == 2.0
    assert sustained_ratio(points, OURS, BASELINE, "other work") == 0.0
    user = [Point(OURS, "mixed", 1.0, 5.0, 2.0, 1.0), Point(BASELINE, "mixed", 1.0, 5.0, 9.0, 1.0)]
    assert list(latency_ratios(user, OURS, BASELINE)) == [4.5]
    assert list(latency_ratios(user, OURS, SAME_MACHINE)) == []


def test_the_simulated_user_is_served_sooner_than_in_order_of_arrival() -> None:
    points = figure7(LENGTHS, (4.0,), (0.5,), 30)
    assert [ratio for ratio in latency_ratios(points, OURS, SAME_MACHINE) if ratio > 1]


def test_decisions_are_timed_while_many_wait() -> None:
    assert 0 < decision_us(200, 20) < 1e5


@pytest.mark.parametrize("name", ["agentrt", "openvino_genai"])
def test_a_side_serves_a_schedule(name: str) -> None:
    arrivals = [Arrival(0.0, 30, 3, False), Arrival(0.05, 20, 2, True)]
    side_name = "agentrt" if name == "agentrt" else "openvino_genai"
    with Side(side_name, str(MODEL_DIRECTORY)) as side:
        run = side.serve(arrivals)
    assert [one.arrival for one in run.served] == arrivals
    for one in run.served:
        assert 0 < one.first_s <= one.total_s <= run.elapsed_s
        assert abs(one.prompt_tokens - one.arrival.prompt_tokens) < 30
