"""The engine bench: its arithmetic, and the real thing on next to no work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.bench_model import BenchModel
from agentrt.bench.common.prompts import Passages, Prompts, RandomWords
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.engine import cuts as _engine_cuts
from agentrt.bench.engine import main as engine
from agentrt.bench.engine.cuts import EXACT, ForwardPasses
from agentrt.bench.engine.main import bandwidth_fraction, rest_between_steps
from agentrt.bench.engine.speeds import DECODE, Rates, Work, answers_of, least_ratio, words_for
from agentrt.bench.engine.step import DecodeStep, Operation, _operations, measure_decode_step
from agentrt.bench.engines.local import AgentRT
from agentrt.bench.engines.side import Answer, EngineProcess, Request
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.model.kv_layout import KVLayout
from agentrt.runtime.nano import MODEL_DIRECTORY
from agentrt.runtime.xpu import machine

pytestmark = pytest.mark.bench

TINY = ModelShape("qwen2", 3, 64, 128, 2, 1, 512)
NANO = BenchModel.of("nano", "nano", RandomWords)
RATIOS = ("decode", "prefill", "batch8", "batch16")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "COMPARED", ForwardPasses(chunks=2, chunk_tokens=20, decode_steps=3))
    monkeypatch.setattr(engine, "SIZES", {True: engine.Size(1, 0, 6, 3), False: engine.Size(1, 1, 6, 3)})
    monkeypatch.setattr(engine, "_NANO_TIMES", 1)
    monkeypatch.setattr(engine, "PREFILL_TOKENS", (100, 2000))
    monkeypatch.setattr(engine, "PROMPTS", 4)


@pytest.mark.usefixtures("small")
def test_nano_is_measured_on_next_to_no_work() -> None:
    said: list[str] = []
    report = engine.run(quick=False, workloads=None, progress=said.append)
    assert report.bench == "engine"
    assert report.figures.keys() - {"peak_rss_ratio_vs_openvino_genai"} == {
        *(f"{name}_ratio_vs_openvino_genai" for name in RATIOS),
        "greedy_equal_prompts",
        "decode_bandwidth_fraction",
        "rest_between_steps_ms",
        "logits_max_abs_diff_cut",
    }
    figures = report.figures
    assert (figures["greedy_equal_prompts"], figures["logits_max_abs_diff_cut"]) == (4, 0)
    assert 0 < figures["decode_bandwidth_fraction"] < 1
    if sys.platform == "linux":
        # An interpreter and OpenVINO are the most of either.
        assert 0.3 < figures["peak_rss_ratio_vs_openvino_genai"] < 3
    speeds, step, agreement = report.tables
    assert {row[0] for row in speeds.rows} == {"groups of 128", "each side's choice"}
    assert {row[3] for row in speeds.rows} == {"openvino_genai", "openvino_genai_batching"}
    # nano's context has no room for the longer prompt.
    assert {row[1] for row in speeds.rows} == {"prefill, 100 tokens", DECODE, answers_of(8), answers_of(16)}
    assert {"between operations", "all of OpenVINO", "a step"} <= {str(row[0]) for row in step.rows}
    # Cut in two ways at two precisions.
    exact = [row for row in agreement.rows if row[1] == EXACT]
    assert [(row[3], row[4], row[6]) for row in exact] == [(43, 0.0, 1.0)] * 2
    assert len(agreement.rows) == 4
    assert said, "a run that takes long shows its progress"


@pytest.mark.usefixtures("small")
def test_a_gguf_file_is_measured_beside_llama_cpp(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, TINY)
    report = engine.run(quick=True, workloads=None, progress=lambda line: None, model=str(file))
    for name in RATIOS:
        best = report.figures[f"{name}_ratio_vs_best_peer"]
        assert 0 < best <= report.figures[f"{name}_ratio_vs_openvino_genai"]
    assert len([row for row in report.tables[0].rows if row[3] == "llama_cpp"]) == 5
    assert "llama.cpp's server" in report.method


def test_a_cut_that_changes_something_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import openvino as ov
    import openvino.opset15 as opset

    from agentrt.runtime.heg.kernel import KernelKind
    from agentrt.runtime.heg.partition import Partition

    def halved(partition: Partition) -> Iterator[tuple[str, dict[KernelKind, list[ov.Model]]]]:
        (whole,) = partition.layer_segments(())
        logits = whole.get_results()[0].input_value(0)
        half = opset.multiply(logits, opset.constant(0.5, ov.Type.f32))
        yield "wrongly", {KernelKind.LAYERS: [ov.Model([half], whole.get_parameters(), "wrong")]}

    monkeypatch.setattr(_engine_cuts, "_cuts", halved)
    passes = ForwardPasses(chunks=1, chunk_tokens=9, decode_steps=2)
    exact, _ = _engine_cuts.compare_cuts(NANO, passes, lambda line: None)
    assert (exact.cut, exact.positions) == ("wrongly", 11)
    assert exact.max_abs_diff == pytest.approx(exact.largest_logit / 2)
    assert exact.equal_argmax == 1.0


def test_the_ratio_compares_neighbours_in_time() -> None:
    # The machine was twice as slow in the second repetition, for both.
    rates = Rates("decode", [200.0, 100.0, 220.0], "openvino_genai", [100.0, 50.0, 110.0])
    assert rates.ratio == 2.0


def test_a_figure_is_the_ratio_to_the_best_opponent() -> None:
    found = [
        Rates("decode", [100.0], "openvino_genai", [80.0]),
        Rates("decode", [100.0], "openvino_genai_batching", [125.0]),
        Rates("decode", [100.0], "llama_cpp", [200.0]),
        Rates("prefill", [100.0], "openvino_genai", [500.0]),
    ]
    assert least_ratio(found, "decode") == 0.5
    assert least_ratio(found, "decode", "openvino_genai") == 0.8


def answered(prompt_tokens: int, new_tokens: int, decode_s: float) -> Answer:
    return Answer(Request("", new_tokens), prompt_tokens, new_tokens, 0.0, 0.0, decode_s)


@pytest.mark.parametrize("tokens", [64, 2048])
@pytest.mark.parametrize("prompts", [RandomWords(1), Passages(1)])
def test_prompts_have_the_tokens_that_are_asked_for(prompts: Prompts, tokens: int) -> None:
    class Side:
        def generate(self, request: Request) -> Answer:
            return answered(11 + 3 * len(str(request.prompt).split()), 1, 1.0)

    side: Any = Side()
    words = words_for(tokens, side, prompts)
    assert abs(11 + 3 * len(prompts.take(words).split()) - tokens) <= 2


class Counter:
    """What OpenVINO says of an operation: the mean time of all passes."""

    def __init__(self, name: str, kind: str, microseconds: int) -> None:
        self.node_name = name
        self.node_type = kind
        self.real_time = timedelta(microseconds=microseconds)


def test_operations_are_summed_by_kind_and_matrices_by_shape_without_the_warm_up() -> None:
    weights = {"up": ("4 to 8", 40), "gate": ("4 to 8", 40), "down": ("8 to 4", 36)}
    before: Any = [
        Counter("up", "FullyConnected", 1000),
        Counter("gate", "FullyConnected", 500),
        Counter("down", "FullyConnected", 40),
        Counter("norm", "RMS", 2),
        Counter("merged into another", "Add", 0),
    ]
    after: Any = [
        Counter("up", "FullyConnected", 208),  # 2 x 1000, then 8 x 10
        Counter("gate", "FullyConnected", 116),  # 2 x 500, then 8 x 20
        Counter("down", "FullyConnected", 12),  # 2 x 40, then 8 x 5
        Counter("norm", "RMS", 2),
        Counter("merged into another", "Add", 0),
    ]
    assert _operations(before, after, weights, warm_up=2, steps=8) == (
        Operation("FullyConnected 4 to 8", 2, pytest.approx(30e-6), 80),
        Operation("FullyConnected 8 to 4", 1, pytest.approx(5e-6), 36),
        Operation("RMS", 1, pytest.approx(2e-6), 0),
    )


def test_where_a_step_goes_adds_up() -> None:
    operations = (
        Operation("FullyConnected 4 to 8", 2, 0.008, 400_000_000),
        Operation("FullyConnected 4 to 1", 1, 0.00008, 8_000_000),
        Operation("RMS", 5, 0.00004, 0),
        Operation("RoPE", 4, 0.00003, 0),
    )
    step = DecodeStep(1, 410_000_000, 0.0085, 0.009, operations, 82e9, KVLayout((), 32))
    rows = {row[0]: row[1:] for row in step.table("some", 0.01, 0.0015).rows}
    assert rows["2 x FullyConnected 4 to 8"] == (8.0, 400.0, 50.0)
    assert rows["9 x all others"] == (0.07, None, None)
    assert rows["1 x FullyConnected 4 to 1"] == (0.08, 8.0, 100.0)
    assert rows["between operations"] == (0.85, None, None)
    assert rows["the runtime, between kernels"] == (1.5, None, None)
    assert rows["a step"] == (10.0, 410.0, 41.0)


def test_the_bandwidth_fraction_compares_a_decode_with_the_bandwidth_of_its_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speeds, bandwidths = iter([100.0, 50.0, 50.0]), iter([80e9, 40e9, 20e9])
    monkeypatch.setattr(machine, "measure_read_bandwidth", lambda: next(bandwidths))

    class Side:
        def generate(self, request: Request) -> Answer:
            return answered(10, request.max_tokens, (request.max_tokens - 1) / next(speeds))

    work = Work(3, {}, decode_words=10, decode_tokens=33, batch_words=1, batch_tokens=1, batches=())
    side: Any = Side()
    assert bandwidth_fraction(side, 400_000_000, RandomWords(1), work) == pytest.approx(0.5)


def test_a_rest_is_what_a_step_takes_beyond_its_kernels() -> None:
    def kernel(batch: int, started: float, seconds: float, stage: str = "decode") -> TracedKernel:
        ended = started + seconds
        return TracedKernel(Role.DECODE, started, ended, batch, 0, 1, "layers", stage, True, ("gen_1",), 1)

    kernels = [
        kernel(0, 0.0, 5.0, "prefill"),
        *(kernel(1, 10.0, 1.0), kernel(1, 11.5, 2.0)),  # 0.5 between, 0.25 after
        *(kernel(2, 13.75, 1.0), kernel(2, 15.0, 2.0)),  # 0.25 and 0.5
        *(kernel(3, 17.5, 1.0), kernel(3, 18.5, 2.0)),  # and 4 once, when something else had the machine
        kernel(4, 24.5, 1.0),
    ]
    assert rest_between_steps(kernels) == 0.75


@pytest.mark.usefixtures("measured_costs")  # as those of the side, which is another process
def test_a_side_finds_the_profile_that_the_decode_step_was_measured_with(tmp_path: Path) -> None:
    settings = {"platform": "cpu", "memory_bytes": 2**26, "profile_folder": tmp_path}
    step = measure_decode_step(MODEL_DIRECTORY, settings, past=40, steps=4)
    measured = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert measured
    with EngineProcess(AgentRT, str(MODEL_DIRECTORY), settings) as side:
        assert side.generate(Request("hello", 3)).new_tokens == 3
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == measured
    # It reads all weights but the embedding, which is as large as the head, and little beside them.
    weights = MODEL_DIRECTORY.joinpath("openvino_model.bin").stat().st_size
    assert weights / 2 < step.bytes < 1.5 * weights
    assert step.cache_bytes(step.layout.block_tokens + 1) == 2 * step.layout.block_bytes
    matrices = sum(each.bytes for each in step.operations)
    assert 0.5 * step.bytes < matrices < 1.5 * step.bytes


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted on Linux only")
def test_peak_memory_is_kept_when_memory_is_freed() -> None:
    script = (
        "from agentrt.bench.common.machine import peak_memory_bytes as peak; before = peak(); "
        "block = b'x' * 2**28; there = peak(); del block; print(there - before, peak() - there)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    grown, after = map(int, said.stdout.split())
    assert grown > 0.9 * 2**28
    assert after > -0.1 * 2**28, "the kernel counts pages a little late"
