"""The scheduler bench: its arithmetic, and the real thing on next to no work."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.common.report import Seeds
from agentrt.bench.scheduler import main as _scheduler_main
from agentrt.bench.scheduler.figures import (
    Point,
    Sweep,
    figure7,
    figures_of,
    find_knee,
    latency_ratios,
    sustained_ratio,
)
from agentrt.bench.scheduler.load import Lengths, recorded_lengths
from agentrt.bench.scheduler.simulated import (
    CPU,
    GPU_ALONE,
    OURS,
    SAME_XPUS,
    SYSTEMS,
    Load,
    SimulatedRun,
    measure_waits,
    overlap_fraction,
    run_load,
)
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role
from tests.bench.workload_folder import WORKLOADS, has_workloads

pytestmark = pytest.mark.bench

LENGTHS = Lengths(((40, 6),), {"short": ((60, 4), (90, 4))})


@pytest.mark.skipif(not has_workloads(), reason="the public workload sets are not here")
def test_lengths_of_the_public_sets() -> None:
    lengths = recorded_lengths(WORKLOADS)
    assert len(lengths.proactive) == 3
    assert all(
        prompt >= 8 and answer >= 1 for prompt, answer in (*lengths.reactive, *lengths.any_proactive())
    )


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


def test_a_gguf_file_is_measured_beside_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(_scheduler_main, "GIVEN", {True: _scheduler_main.GivenSize(1, 1)})
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 3, 64, 128, 2, 1, 512))
    report = _scheduler_main.run(quick=True, workloads=None, progress=lambda line: None, model=str(file))
    peers = ("openvino_genai", "llama_cpp")
    assert report.figures.keys() == {  # its chat template takes no tools, so that there is no agent
        *(f"reactive_ttft_beside_prefill_ratio_vs_{name}" for name in peers),
        *("reactive_ttft_over_alone", "reactive_ms_per_token_beside_8_ratio"),
    }
    assert {row[0] for row in report.tables[0].rows} == {"agentrt", "openvino_genai_default_groups", *peers}
    assert "AVX2" in report.method, "what llama.cpp is compiled for"


def test_simulated_machines_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = Sweep((0.2, 0.4), (10.0,), range(1), 3, 3)
    monkeypatch.setattr(_scheduler_main, "SIMULATED", {True: _scheduler_main.SimulatedSize(sweep, (64,), 2)})
    monkeypatch.setattr(_scheduler_main, "recorded_lengths", lambda folder: LENGTHS)
    report = _scheduler_main.run(quick=True, workloads=None, progress=lambda line: None, seeds=Seeds(2, 5))
    wanted = {"sim_reactive_latency_ratio", "sim_proactive_kernel_max_ms", "sim_reactive_wait_max_ms"}
    assert wanted <= report.figures.keys()
    assert [len(table.rows) for table in report.tables] == [8, 8]
