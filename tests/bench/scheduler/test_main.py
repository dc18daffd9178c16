"""The scheduler bench: its schedules, its arithmetic, and the real thing on next to no work."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.bench_model import BenchModel, RandomWords
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.common.report import Seeds
from agentrt.bench.engines.side import Answer, Request, Run
from agentrt.bench.scheduler import main as _scheduler_main
from agentrt.bench.scheduler.engines import Arrival, describe_precision
from agentrt.bench.scheduler.figures import (
    Point,
    Sweep,
    figure7,
    figures_of,
    find_knee,
    latency_ratios,
    sustained_ratio,
)
from agentrt.bench.scheduler.live import LiveSize, one_by_one, over_unloaded
from agentrt.bench.scheduler.load import Lengths, recorded_arrivals, recorded_lengths
from agentrt.bench.scheduler.simulated import (
    CPU,
    GPU_ALONE,
    OURS,
    SAME_XPUS,
    SYSTEMS,
    Load,
    SimulatedRun,
    decision_us,
    measure_waits,
    overlap_fraction,
    run_load,
)
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.model.directory import open_model_directory
from agentrt.runtime.nano import MODEL_DIRECTORY
from tests.bench.workload_folder import WORKLOADS, has_workloads

pytestmark = pytest.mark.bench

NANO = BenchModel.of("nano", "nano", RandomWords)
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


def served(first: float, tokens: int = 600, *, reactive: bool = True) -> Answer:
    return Answer(Request("", 5, reactive=reactive), tokens, 5, first, first + 1)


def test_a_user_is_compared_with_the_same_user_alone() -> None:
    alone = Run((served(1.0), served(2.0, tokens=100)), 5)
    mixed = Run((served(1.2), served(1.0, reactive=False), served(3.0, tokens=100)), 5)
    assert list(over_unloaded([(alone, mixed, alone)], 512)) == [1.2]
    assert list(over_unloaded([(alone, mixed, alone)], 0)) == [1.2, 1.5]


def test_alone_a_user_asks_at_once_and_one_after_the_other() -> None:
    class Idle:
        def serve(self, arrivals: list[Arrival]) -> Run:
            (only,) = arrivals
            assert only.at_s == 0
            return Run((served(0.5, only.prompt_tokens),), 2.0)

    idle: Any = Idle()
    alone = one_by_one(idle, [Arrival(3.0, 10, 5, True), Arrival(9.0, 20, 5, True)])
    assert [one.prompt_tokens for one in alone.answers] == [10, 20]
    assert alone.elapsed_s == 4.0


def point(
    system: str,
    rate: float,
    *,
    reactive: tuple[float, ...] = (),
    proactive: tuple[float, ...] = (),
    interval: float | None = None,
    busiest: float = 0.5,
    overlap: float | None = None,
) -> Point:
    run = SimulatedRun(reactive, proactive, overlap, busiest)
    return Point(system, "work", rate, interval, (run,))


def test_sustained_rates_and_latency_ratios() -> None:
    points = [
        point(system, rate, proactive=(float(ms),))
        for system, latencies in ((OURS, (1, 2, 3, 50)), (CPU, (4, 7, 9, 10)))
        for rate, ms in zip((1.0, 2.0, 4.0, 8.0), latencies, strict=True)
    ]
    # The baseline is at 8 ms at most up to a rate of 2, we are up to 4.
    assert sustained_ratio(points, CPU, "work") == 2.0
    assert sustained_ratio(points, CPU, "other work") == 0.0
    user = [
        point(OURS, 1.0, reactive=(2.0, 2.0, 5.0), interval=5.0),
        point(CPU, 1.0, reactive=(9.0, 9.0, 90.0), interval=5.0),
    ]
    assert list(latency_ratios(user, CPU)) == [(4.5, 12.0)]
    assert list(latency_ratios(user, SAME_XPUS)) == []


def test_the_knee_is_the_highest_rate_at_which_nothing_is_saturated() -> None:
    def loads(latencies: tuple[float, ...], busy: tuple[float, ...]) -> list[Point]:
        return [
            point(OURS, rate, reactive=(ms,), interval=5.0, busiest=share, overlap=rate / 10)
            for rate, ms, share in zip((1.0, 2.0, 4.0, 8.0), latencies, busy, strict=True)
        ]

    def knee(points: list[Point]) -> list[float]:
        return [each.rate for each in find_knee(points)]

    assert knee(loads((2.0, 2.1, 2.2, 2.3), (0.2, 0.5, 0.9, 0.99))) == [4.0], "no XPU has time left"
    assert knee(loads((2.0, 2.1, 2.6, 2.2), (0.2, 0.5, 0.9, 0.9))) == [2.0], "questions take longer"
    assert knee(loads((2.0, 2.1, 2.2, 2.3), (0.99, 0.99, 0.99, 0.99))) == []
    found = figures_of(LENGTHS, [], loads((2.0, 2.1, 2.2, 2.3), (0.2, 0.5, 0.9, 0.99)))
    assert (found["sim_knee_requests_per_s"], found["sim_overlap_fraction"]) == (4.0, 0.4)
    saturated = figures_of(LENGTHS, [], loads((2.0, 2.1, 2.2, 2.3), (0.99,) * 4))
    assert "sim_overlap_fraction" not in saturated, "what cannot be measured is left out"


def test_overlap_counts_only_decodes() -> None:
    def kernel(role: Role, stage: str, started: float, ended: float) -> TracedKernel:
        return TracedKernel(role, started, ended, 0, 0, 1, "layers", stage, False, (), 1)

    kernels = [
        kernel(Role.PREFILL, "prefill", 0.0, 2.0),
        kernel(Role.PREFILL, "prefill", 3.0, 5.0),
        kernel(Role.DECODE, "decode", 1.0, 1.5),
        kernel(Role.DECODE, "prefill", 1.5, 2.0),
        kernel(Role.DECODE, "decode", 4.5, 9.0),
    ]
    assert overlap_fraction(kernels) == pytest.approx(1.0 / 4.0)
    assert overlap_fraction(kernels[2:]) is None


def test_a_seed_gives_every_system_the_same_requests() -> None:
    load = Load(LENGTHS.any_proactive(), 2.0, 20.0)
    ours, again, other_seed = (run_load(OURS, load, seed) for seed in (1, 1, 2))
    assert ours == again != other_seed
    for system in SYSTEMS:
        assert len(run_load(system, load, 1).proactive_ms) == len(ours.proactive_ms) > 10


def test_prefill_overlaps_decoding_on_the_papers_machine() -> None:
    """The point of disaggregation (Agent.xpu §5.2): under load the NPU prefills while the GPU decodes."""
    load = Load(((520, 60), (760, 80)), 0.4, 60.0, ((300, 60),), 10.0)
    for system in (OURS, SAME_XPUS):
        overlap = run_load(system, load, 0).overlap
        assert overlap is not None
        assert overlap > 0.5
    assert run_load(GPU_ALONE, load, 0).overlap is None


def test_the_simulated_user_is_served_sooner_than_in_order_of_arrival() -> None:
    points = figure7(LENGTHS, Sweep((4.0,), (0.5,), range(7, 9), 30, 10), lambda line: None)
    assert {len(each.runs) for each in points} == {2}
    assert [medians for medians, _ in latency_ratios(points, SAME_XPUS) if medians > 1]


def test_questions_wait_for_one_kernel_at_most() -> None:
    waits = list(measure_waits((64, 240), 6))
    assert [each.prompt_tokens for each in waits] == [64, 240]
    for each in waits:
        assert 0 < each.longest_kernel_s <= 0.1
        assert 0 <= max(each.seconds) <= 0.035


def test_decisions_are_timed_while_many_wait() -> None:
    assert decision_us(200, 20) > 0


def test_a_gguf_file_is_measured_beside_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    size = _scheduler_main.GivenSize(LiveSize(1, 1, 1), 1, 1)
    monkeypatch.setattr(_scheduler_main, "GIVEN", {True: size})
    monkeypatch.setattr(_scheduler_main, "recorded_lengths", lambda folder: LENGTHS)
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 3, 64, 128, 2, 1, 512))
    report = _scheduler_main.run(quick=True, workloads=None, progress=lambda line: None, model=str(file))
    peers = ("openvino_genai", "llama_cpp")
    assert {
        *(f"reactive_p95_ttft_ratio_vs_{name}" for name in peers),
        *(f"reactive_ttft_beside_prefill_ratio_vs_{name}" for name in peers),
        *("reactive_ttft_over_alone", "reactive_ms_per_token_beside_8_ratio"),
        "proactive_throughput_ratio_vs_openvino_genai",
    } <= report.figures.keys()
    assert "agent_turn_ratio_vs_best_peer" not in report.figures, "its chat template takes no tools"
    assert {row[0] for row in report.tables[0].rows} == {"agentrt", *peers}
    assert "llama.cpp's server" in report.method


def test_nano_and_simulated_machines_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scheduler_main, "NANO", {True: LiveSize(1, 1, 1)})
    sweep = Sweep((0.2, 0.4), (10.0,), range(1), 3, 3)
    monkeypatch.setattr(_scheduler_main, "SIMULATED", {True: _scheduler_main.SimulatedSize(sweep, (64,), 2)})
    monkeypatch.setattr(_scheduler_main, "_DECISIONS", 5)
    monkeypatch.setattr(_scheduler_main, "recorded_lengths", lambda folder: LENGTHS)
    report = _scheduler_main.run(quick=True, workloads=None, progress=lambda line: None, seeds=Seeds(2, 5))
    assert {
        *("reactive_p95_ttft_ms", "reactive_p95_ttft_ratio_vs_openvino_genai"),
        *("reactive_p95_ttft_over_unloaded", "proactive_throughput_ratio_vs_openvino_genai"),
        *("sim_reactive_latency_ratio", "sim_proactive_kernel_max_ms", "sim_reactive_wait_max_ms"),
        *("decision_us_p50_at_1000", "decision_us_p50_at_10000"),
    } <= report.figures.keys()
    user, waits, alone, mixed = report.tables
    assert [row[0] for row in user.rows] == ["agentrt", "openvino_genai"]
    assert user.rows[0][1] == user.rows[1][1], "both compute nano alike"
    assert {(row[0], row[3]) for row in waits.rows} == {("70%", 1)}
    assert (len(alone.rows), len(mixed.rows)) == (8, 8)
    assert "2 runs a point" in report.method


def test_the_groups_of_activations_are_those_of_each_side(tmp_path: Path) -> None:
    file = tmp_path / "wide.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 512, 512, 4, 4, 512))
    model = open_model_directory(file, tmp_path / "cache").path
    assert "groups of 128," in describe_precision("agentrt", model)
    assert "groups of 32," in describe_precision("openvino_genai", model)
    assert "groups of 32," in describe_precision("agentrt", MODEL_DIRECTORY), "nano's rows are short"
