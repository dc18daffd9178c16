"""The scheduler bench: its arithmetic, and the real thing on next to no work."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from agentrt.bench.common.estimates import Estimate
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.common.report import Seeds
from agentrt.bench.scheduler import main as _scheduler_main
from agentrt.bench.scheduler import reactive
from agentrt.bench.scheduler.figures import Found, Point, Sweep, figures_of, latency_ratio, rates_table
from agentrt.bench.scheduler.load import DEVELOPMENT, HELD_BACK, Lengths, recorded_lengths
from agentrt.bench.scheduler.simulated import (
    CPU,
    GPU_ALONE,
    OURS,
    RATES,
    SAME_XPUS,
    SYSTEMS,
    HighestRates,
    Load,
    SimulatedRun,
    energy,
    find_highest_rates,
    last_place,
    measure_waits,
    overlap_fraction,
    run_load,
)
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role
from tests.bench.workload_folder import WORKLOADS, has_workloads

pytestmark = pytest.mark.bench

LENGTHS = Lengths(((40, 6),), {"short": ((300, 30), (520, 40))})
SWEEP = Sweep(range(1), 12, (0.2, 0.4), (10.0,), 3, 3)


@pytest.mark.skipif(not has_workloads(), reason="the public workload sets are not here")
def test_lengths_of_the_public_sets() -> None:
    found = recorded_lengths(WORKLOADS)
    assert [*found] == [DEVELOPMENT, HELD_BACK]
    for lengths in found.values():
        pairs = (*lengths.reactive, *lengths.any_proactive())
        assert len(lengths.proactive) == 3
        assert all(prompt >= 8 and answer >= 1 for prompt, answer in pairs)


def test_records_of_a_group_are_held_back_together(tmp_path: Path) -> None:
    assert [*recorded_lengths(None)] == [*recorded_lengths(tmp_path)] == [DEVELOPMENT]
    event = {"event": "x"}
    groups = {str(number): number for number in range(20)}  # the number of its events tells the group
    records = [
        {"id": f"{g}-{n}", "group": g, "events": [event] * (100 * groups[g])}
        for g in groups
        for n in ("first", "second")
    ]
    calls = [{"id": str(n), "tools": [], "messages": []} for n in range(20)]
    for name, lines in {"proactive_reward": records, "bfcl_single": calls}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tuned, held_back = (set(each.any_proactive()) for each in recorded_lengths(tmp_path).values())
    assert tuned
    assert held_back
    assert not tuned & held_back


@pytest.mark.parametrize("last", [-1, 0, 3, 41, 98, 99])
@pytest.mark.parametrize("near", [0, 41, 99])
def test_the_last_place_is_found_from_anywhere(last: int, near: int) -> None:
    tried: list[int] = []

    def holds(place: int) -> bool:
        tried.append(place)
        return place <= last

    assert last_place(holds, 100, near) == last
    assert len(tried) == len(set(tried)) <= 14


def test_the_highest_rate_is_the_last_at_which_requests_do_not_wait_long() -> None:
    lengths, requests, seed = ((300, 4), (90, 4)), 6, 3
    found = find_highest_rates(lengths, requests, seed)
    assert found.rates.keys() >= {OURS, SAME_XPUS, GPU_ALONE}
    assert found.overlap is not None

    def latency_ms(system: str, rate: float) -> float:
        latencies = run_load(system, Load(lengths, rate, requests / rate), seed).proactive_ms
        return statistics.fmean(latencies[len(latencies) // 2 :])

    for system, rate in found.rates.items():
        above = RATES[RATES.index(rate) + 1]
        assert latency_ms(system, rate) <= found.limit_ms < latency_ms(system, above)


def test_rate_ratios_are_within_a_seed_and_tell_the_sets_apart() -> None:
    def rates(ours: float, theirs: float) -> HighestRates:
        return HighestRates(4.0, {OURS: ours, SAME_XPUS: theirs}, 0.5)

    seeds = (rates(2.0, 1.0), rates(8.0, 4.0))  # what differs between the seeds is no interval of the ratio
    found = [
        Found(DEVELOPMENT, "mail", seeds),
        Found(DEVELOPMENT, "news", (rates(8.0, 1.0),) * 2),
        Found(HELD_BACK, "mail", (rates(1.0, 1.0), rates(1.0, 2.0))),
    ]
    figures = figures_of(found, [], SWEEP)
    assert figures["sim_proactive_rate_ratio_same_machine"] == Estimate(
        value=4.0, low=4.0, high=4.0, samples=2
    )
    held_back = figures["sim_proactive_rate_ratio_same_machine_held_back"]
    assert (held_back.low, held_back.high) == (0.5, 1.0)
    assert figures["sim_overlap_fraction"].value == 0.5
    assert "sim_proactive_rate_ratio_gpu_alone" not in figures, "what cannot be measured is left out"
    rows = {(row[0], row[1], row[2]): row[3:5] for row in rates_table("Fig. 6", found).rows}
    assert rows[DEVELOPMENT, "mail", CPU] == (None, None)
    assert rows[HELD_BACK, "mail", SAME_XPUS][1] == Estimate(value=0.75, low=0.5, high=1.0, samples=2)


def test_latency_ratios_are_of_the_same_seeds() -> None:
    def point(system: str, interval: float, *by_seed: tuple[float, ...]) -> Point:
        return Point(
            DEVELOPMENT, system, 0.1, interval, tuple(SimulatedRun(ms, (), None, 1.0, 1.0) for ms in by_seed)
        )

    points = [
        *(point(OURS, 10.0, (1.0, 1.0, 7.0), (100.0,)), point(SAME_XPUS, 10.0, (2.0, 2.0, 70.0), (200.0,))),
        *(point(OURS, 30.0, (1.0, 500.0, 500.0), (1.0,)), point(SAME_XPUS, 30.0, (8.0,), (8.0,))),
    ]
    ratio = latency_ratio(points, SAME_XPUS, "reactive_ms", statistics.median)
    assert ratio is not None
    assert (ratio.value, ratio.low) == pytest.approx((72**0.5, 4.0)), (
        "9 times 8; of either seed alone 2 times 8"
    )
    assert latency_ratio(points, SAME_XPUS, "proactive_ms", statistics.median) is None


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


def test_energy_and_peak_power_are_those_of_kernels_at_once() -> None:
    def kernel(role: Role, started: float, ended: float) -> TracedKernel:
        return TracedKernel(role, started, ended, 0, 0, 1, "layers", "decode", False, (), 1)

    watts = {Role.PREFILL: 6.0, Role.DECODE: 15.0}
    apart = [kernel(Role.PREFILL, 0.0, 1.0), kernel(Role.DECODE, 1.0, 3.0)]
    assert energy(apart, watts) == pytest.approx((36.0, 15.0))
    assert energy([*apart, kernel(Role.PREFILL, 2.5, 3.0)], watts) == pytest.approx((39.0, 21.0))
    assert energy([], watts) == (0.0, 0.0)


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
    load = Load(((400, 20),), 4.0, 8.0, ((60, 4),), 0.5)
    ours, theirs = (run_load(system, load, 7).reactive_ms for system in (OURS, SAME_XPUS))
    assert 2 * statistics.median(ours) < statistics.median(theirs)


def test_questions_wait_for_one_kernel_at_most() -> None:
    for each in (measure_waits(64, 6), measure_waits(240, 6)):
        assert 0 < each.longest_kernel_s <= 0.1
        assert 0 <= max(each.seconds) <= 0.035


def test_a_gguf_file_is_measured_beside_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(_scheduler_main, "GIVEN", {True: _scheduler_main.GivenSize(1, 1, 1)})
    monkeypatch.setattr(reactive, "_ANSWERED_TOKENS", 8)
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
    size = _scheduler_main.SimulatedSize(SWEEP, (64,), 2, decided=2, decided_s=0.2)
    monkeypatch.setattr(_scheduler_main, "SIMULATED", {True: size})
    monkeypatch.setattr(
        _scheduler_main, "recorded_lengths", lambda folder: {DEVELOPMENT: LENGTHS, HELD_BACK: LENGTHS}
    )
    report = _scheduler_main.run(quick=True, workloads=None, progress=lambda line: None, seeds=Seeds(2, 5))
    assert {f"sim_overlap_fraction{sets}" for sets in ("", "_held_back")} <= report.figures.keys()
    assert all(each.has_interval for each in report.figures.values())
    assert report.figures["sim_proactive_kernel_max_ms"].is_exact
    p50, p999, most = (report.figures[f"decision_us_{name}_at_10000"] for name in ("p50", "p999", "max"))
    assert 0 < p50.value < p999.value <= most.value
    schemes, rates, points, ratios = report.tables
    assert [len(each.rows) for each in (schemes, rates, points, ratios)] == [4, 8, 16, 12]
    assert 0 < schemes.rows[-1][1].value < schemes.rows[-1][2].value
