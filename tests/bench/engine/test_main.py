"""The engine bench: its arithmetic, and the real thing on next to no work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.bench_model import BenchModel, Passages, Prompts, RandomWords
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.bench.engine import main as engine
from agentrt.bench.engine.main import bandwidth_fractions, rest_between_steps, step_and_cache_bytes
from agentrt.bench.engine.speeds import (
    DECODE,
    PREFILL,
    Rates,
    Work,
    answers_of,
    decode_behind,
    least_ratio,
    prefill_of,
    words_for,
)
from agentrt.bench.engines.local import AgentRT
from agentrt.bench.engines.side import Answer, EngineProcess, Request
from agentrt.runtime import RuntimeConfig
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.local.assembly import library_for
from agentrt.runtime.nano import MODEL_DIRECTORY
from agentrt.runtime.xpu import machine

pytestmark = pytest.mark.bench

TINY = ModelShape("qwen2", 3, 64, 128, 2, 1, 512)
NANO = BenchModel.of("nano", "nano", RandomWords)
RATIOS = ("decode", "prefill", "batch8", "prefill_at_150", "decode_at_150", "batch16")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SIZES", {True: engine.Size(2, 1, 6, 3, 0.5)})
    monkeypatch.setattr(engine, "_SETTLED_S", 0.0)
    monkeypatch.setattr(engine, "PREFILL_TOKENS", 100)
    monkeypatch.setattr(engine, "PROMPTS", 4)
    monkeypatch.setattr(engine, "LONG", (150, 2**20))
    monkeypatch.setattr(engine, "_SPARE_TOKENS", 64)


@pytest.mark.usefixtures("small")
def test_nano_is_measured_on_next_to_no_work() -> None:
    report = engine.run(quick=True, workloads=None, progress=lambda line: None)
    energy = {"joules_per_token", "mean_watts"} & report.figures.keys()
    assert ("Energy is left out: /sys" in report.method) is not bool(energy)
    assert report.figures.keys() - {"peak_rss_ratio_vs_openvino_genai", *energy} == {
        *(f"{name}_ratio_vs_openvino_genai" for name in RATIOS),
        "greedy_equal_share",
        "decode_bandwidth_fraction",
        "rest_between_steps_ms",
        "idle_wakeups_per_s",
        "idle_cpu_s_in_5_min",
    }
    figures = report.figures
    assert (figures["greedy_equal_share"].value, figures["greedy_equal_share"].samples) == (1, 4)
    once = {name for name, figure in figures.items() if not figure.has_interval}
    few = {f"{name}_at_150_ratio_vs_openvino_genai" for name in ("prefill", "decode")}  # one repetition
    assert once <= few | {"peak_rss_ratio_vs_openvino_genai", "idle_wakeups_per_s", "idle_cpu_s_in_5_min"}
    assert 0 < figures["decode_bandwidth_fraction"].value < 1
    if sys.platform == "linux":
        # An interpreter and OpenVINO are the most of either.
        assert 0.3 < figures["peak_rss_ratio_vs_openvino_genai"].value < 3
    (speeds,) = report.tables
    assert {row[2] for row in speeds.rows} == {"openvino_genai", "openvino_genai_batching"}
    assert {row[0] for row in speeds.rows} == {
        *(PREFILL, DECODE, answers_of(8), answers_of(16)),
        *(prefill_of(150), decode_behind(150)),
    }


@pytest.mark.usefixtures("small")
def test_a_gguf_file_is_measured_beside_llama_cpp(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, TINY)
    report = engine.run(quick=True, workloads=None, progress=lambda line: None, model=str(file))
    assert "batch16_ratio_vs_best_peer" not in report.figures, "llama.cpp has no such batch"
    for name in RATIOS[:5]:
        best = report.figures[f"{name}_ratio_vs_best_peer"]
        assert 0 < best.value <= report.figures[f"{name}_ratio_vs_openvino_genai"].value
    beside = [row for row in report.tables[0].rows if row[2] == "llama_cpp"]
    assert [(row[0], getattr(row[3], "samples", None)) for row in beside] == [
        *((PREFILL, 1), (DECODE, 1), (answers_of(8), 1)),
        *((prefill_of(150), 1), (decode_behind(150), 1)),
    ], "in its few repetitions"


def test_the_ratio_compares_neighbours_in_time() -> None:
    # The machine was twice as slow in the second repetition, for both.
    rates = Rates("decode", [200.0, 100.0, 220.0], "openvino_genai", [100.0, 50.0, 110.0])
    assert (rates.ratio.value, rates.ratio.low, rates.ratio.high) == (2.0, 2.0, 2.0)


def test_a_figure_is_the_ratio_to_the_best_opponent() -> None:
    found = [
        Rates("decode", [100.0], "openvino_genai", [80.0]),
        Rates("decode", [100.0], "openvino_genai_batching", [125.0]),
        Rates("decode", [100.0], "llama_cpp", [200.0]),
        Rates("prefill", [100.0], "openvino_genai", [500.0]),
    ]
    assert least_ratio(found, "decode").value == 0.5
    assert least_ratio(found, "decode", "openvino_genai").value == 0.8


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


def test_the_bandwidth_fraction_compares_a_decode_with_the_bandwidth_of_its_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speeds, bandwidths = iter([100.0, 50.0, 50.0]), iter([80e9, 40e9, 20e9])
    monkeypatch.setattr(machine, "measure_read_bandwidth", lambda: next(bandwidths))

    class Side:
        def generate(self, request: Request) -> Answer:
            return answered(10, request.max_tokens, (request.max_tokens - 1) / next(speeds))

    work = Work(3, 1, 10, 33, batch_words=1, batch_tokens=1, batches=(), slow_repetitions=1)
    side: Any = Side()
    shares = bandwidth_fractions(side, 400_000_000, RandomWords(1), work)
    assert shares == pytest.approx([0.5, 0.5, 1.0])


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
def test_a_side_finds_the_profile_that_was_measured_first(tmp_path: Path) -> None:
    settings = {"platform": "cpu", "memory_bytes": 2**26, "profile_folder": tmp_path}
    step_bytes, cache_bytes = step_and_cache_bytes(MODEL_DIRECTORY, settings)
    measured = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert measured
    with EngineProcess(AgentRT, str(MODEL_DIRECTORY), settings) as side:
        assert side.generate(Request("hello", 3)).new_tokens == 3
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == measured
    # It reads all weights but the embedding, which is as large as the head, and little beside them.
    weights = MODEL_DIRECTORY.joinpath("openvino_model.bin").stat().st_size
    assert weights / 2 < step_bytes < 1.5 * weights
    assert cache_bytes > 100 * engine.CACHE_TOKENS, "bytes of keys and values a token"


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


@pytest.mark.parametrize("gguf", [None, Path("a.gguf")])
def test_what_is_measured_of_a_gguf_file_is_what_its_users_get(gguf: Path | None) -> None:
    model = BenchModel("a", MODEL_DIRECTORY, 2048, RandomWords, gguf)
    group = {"dynamic_quantization_group_size": engine.GROUP, "platform": "cpu"}
    own = RuntimeConfig(**engine.own_settings(model, group))
    assert (library_for(own) is not None) == (gguf is not None)
    exact = RuntimeConfig(**engine.own_settings(model, {**group, "dynamic_quantization_group_size": 0}))
    assert library_for(exact) is None
