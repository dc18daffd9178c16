from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino as ov
import pytest
from typer.testing import CliRunner

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.cli.main import app
from agentrt.errors import ConfigurationError
from agentrt.runtime import RuntimeConfig
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.heg.kernel import BatchInputs, BatchShape, Kernel, Role
from agentrt.runtime.heg.partition import Partition
from agentrt.runtime.heg.profile import LayerCosts, Profile
from agentrt.runtime.heg.store import ProfileStore
from agentrt.runtime.local.assembly import library_for
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.native.library import native_library
from agentrt.runtime.model.read_graph import read_paged_graph
from agentrt.runtime.xpu import kernel_bench, layer_sample, loading
from agentrt.runtime.xpu.compiled import CompiledKernels
from agentrt.runtime.xpu.kernel_bench import KernelBench
from agentrt.runtime.xpu.layer_sample import LayerSample, ModelWork
from agentrt.runtime.xpu.loading import LoadedModel, build_model, load_model, load_profile
from tests.hypothesis_profiles import first_of
from tests.runtime.heg.test_partition import with_skip_connection
from tests.runtime.tiny import EXACT, LAYERS, VOCABULARY, Piece, forward, made_up_profile, tiny_model, uncut


@pytest.fixture(autouse=True)
def _quick(measured_costs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures every point only once or twice, so that tests are quick."""
    monkeypatch.setattr(kernel_bench, "_SECONDS_PER_POINT", 0.0)
    monkeypatch.setattr(kernel_bench, "_MIN_RUNS", 1)
    monkeypatch.setattr(loading, "measure_read_bandwidth", lambda: 1e10)


Measure = Callable[..., Profile]


@pytest.fixture
def measure(tiny_folder: Path, tmp_path: Path) -> Measure:
    """Returns the profile of a model, stored in ``tmp_path``."""

    def load(
        model: str | ModelDirectory = "qwen2", platform: str = "cpu", tokens: int = 128, **options: Any
    ) -> Profile:
        directory = tiny_model(tiny_folder, model) if isinstance(model, str) else model
        store = ProfileStore(tmp_path)
        return load_profile(directory, platform, EXACT, max_chunk_tokens=tokens, store=store, **options)

    return load


def layers_of(profile: Profile) -> LayerCosts:
    costs = profile.xpus[Role.DECODE].layers
    assert costs is not None
    return costs


@pytest.mark.parametrize("platform", ["cpu", "emulated"])
def test_a_profile_is_measured_once_for_each_platform(measure: Measure, platform: str) -> None:
    steps: list[str] = []
    profile = measure(platform=platform, advance=steps.append)
    assert steps[0] == "memory bandwidth"
    assert len(steps) == len(set(steps)) > 5
    assert (profile.measured, profile.layers, profile.block_tokens) == (True, LAYERS, 32)
    assert profile.past_bytes == 2 * 32 * 4  # a key and a value of one head of 32, in float32
    decode = layers_of(profile)
    assert decode.layer.counts == (1, 2, 4, 6, 8, 16, 32, 64, 128)
    assert decode.layer.seconds == tuple(sorted(decode.layer.seconds))
    graph = ExecutionGraph(profile, (0,), block_tokens=32, max_chunk_tokens=128, quantum_s=1.0)
    one, many = (graph.estimate_seconds(BatchShape(tokens, 1, 0, 1)) for tokens in (1, 128))
    assert many >= one > 0
    if platform == "emulated":
        groups = profile.xpus[Role.PREFILL].groups
        assert groups is not None
        assert groups.tokens in (64, 128)
        assert decode.attention_s > 0
    else:
        assert set(profile.xpus) == {Role.DECODE}
    assert measure(platform=platform, advance=pytest.fail) == profile


@pytest.mark.parametrize("platform", first_of(["emulated", "cpu"]))
def test_a_chunk_shorter_than_a_block_is_measured_as_the_shortest_one(
    measure: Measure, platform: str
) -> None:
    assert layers_of(measure(platform=platform, tokens=1)).layer.counts == (1, 2, 4, 6, 8, 16, 32)


@pytest.mark.check
def test_another_model_has_another_profile(measure: Measure, tmp_path: Path) -> None:
    for architecture in ("qwen2", "llama"):
        measure(architecture)
    assert len(list(tmp_path.glob("[!m]*.json"))) == 2
    assert len(list(tmp_path.glob("machine-*.json"))) == 1  # the machine is still the same


@pytest.mark.parametrize("platform", first_of(["cpu", "emulated"]))
def test_a_model_is_loaded_as_its_profile_advises(tiny_folder: Path, tmp_path: Path, platform: str) -> None:
    directory = tiny_model(tiny_folder, "qwen2")
    loaded = load_model(
        directory,
        platform=platform,
        properties=EXACT,
        max_chunk_tokens=128,
        quantum_s=0.5,
        profile_folder=tmp_path,
    )
    assert loaded.platform.name == platform
    assert loaded.vocabulary_size == 512
    # A model this small is cut only where two XPUs share it: at each seam, so that neither waits.
    assert loaded.graph.bounds == ((0,) if platform == "cpu" else (0, 1, 2))
    loaded.platform.attach(
        {
            cache.name: loaded.platform.allocate(cache.element_type, ov.Shape([64, *cache.block_shape]))
            for cache in loaded.layout.caches
        }
    )
    prompt = list(range(10, 10 + (loaded.graph.static_tokens or 64)))
    expected = forward(uncut(directory), Piece(prompt))
    np.testing.assert_array_equal(forward(loaded, Piece(prompt)), expected)


@pytest.mark.check
def test_a_model_that_cannot_be_cut_runs_in_one_piece_with_a_warning(
    tiny_folder: Path, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        loading, "read_paged_graph", lambda of, **_: with_skip_connection(read_paged_graph(of))
    )
    profile = measure("nano", "emulated", 64)
    assert set(profile.xpus) == {Role.DECODE}
    directory = tiny_model(tiny_folder, "nano")
    with pytest.warns(RuntimeWarning, match=r"0 of its 5 inner layers.*reactive request may wait"):
        loaded = build_model(directory, "emulated", EXACT, profile, max_chunk_tokens=64, quantum_s=0.5)
    assert loaded.graph.bounds == (0,)
    assert set(loaded.platform.xpus) == {Role.DECODE}


def test_a_model_beyond_the_memory_is_refused_before_it_is_compiled(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agent.xpu §6.5: overflow prevention through conservative footprint estimation."""
    directory = tiny_model(tiny_folder, "qwen2")
    profile = made_up_profile(2, groups=64)  # 10 MB a layer, 5 MB in the head, 10 kB for each token

    def build(available: int | None) -> LoadedModel:
        monkeypatch.setattr(loading, "available_memory", lambda: available)
        return build_model(
            directory, "emulated", EXACT, profile, max_chunk_tokens=64, quantum_s=0.5, kv_bytes=30_000_000
        )

    loaded = build(None)
    # Both XPUs have weights of their own: the NPU's layers without the last, which is the GPU's.
    assert 25_000_000 <= loaded.graph.footprint_bytes <= 60_000_000
    loaded.platform.close()
    build(loaded.graph.footprint_bytes + 30_000_000).platform.close()
    monkeypatch.setattr(loading, "_compile", None)  # it is not called
    with pytest.raises(ConfigurationError, match=r"KV cache 0\.0 GiB.*Choose a smaller"):
        build(loaded.graph.footprint_bytes + 29_999_999)


Timed = Callable[[Callable[[int], float]], None]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    """Lets each run of some tokens take the seconds of a function."""
    run_once = KernelBench._run_once

    def install(seconds: Callable[[int], float]) -> None:
        def run(bench: KernelBench, inputs: BatchInputs, kernels: tuple[Kernel, ...]) -> list[float]:
            run_once(bench, inputs, kernels)
            return [seconds(len(inputs.token_ids))] * len(kernels)

        monkeypatch.setattr(KernelBench, "_run_once", run)

    return install


@pytest.mark.check
@pytest.mark.parametrize("busy", [True, False])
def test_timings_that_differ_say_that_the_machine_was_busy(
    measure: Measure,
    timed: Timed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    busy: bool,
) -> None:
    """Whatever the load average says: converting the model itself has just raised that."""
    load = 0.0 if busy else 99.0
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load), raising=False)
    monkeypatch.setattr(kernel_bench, "_MIN_RUNS", 3)
    slower = itertools.cycle([1.0, 1.5, 2.0] if busy else [1.0])
    timed(lambda tokens: 0.001 * next(slower))
    measure()
    assert ("was measured on a busy machine" in caplog.text) == busy
    if busy:
        assert f"delete {next(tmp_path.glob('[!m]*.json'))}" in caplog.text


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_profile_has_what_beginning_a_tile_costs(measure: Measure, timed: Timed, share: float) -> None:
    timed(lambda tokens: 1e-5 * (tokens + share * (-tokens % 64 if tokens > 64 else 0)))
    profile = measure()
    assert layers_of(profile).tile_share == pytest.approx(share)
    assert profile.tile_tokens == (64 if share else 1)


@pytest.mark.check
def test_the_advice_after_a_busy_machine_is_a_command_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    native_library()  # which is not compiled anew in the other cache folder
    monkeypatch.setattr(loading, "_BUSY_SPREAD", -1.0)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    file = tmp_path / "a model.gguf"
    write_random_gguf(file, ModelShape("qwen2", 2, 64, 128, 2, 1, 512, 1024))
    directory = open_model_directory(file, native=library_for(RuntimeConfig()))
    load_model(
        directory,
        platform="cpu",
        properties=RuntimeConfig().device_properties(keeps_weights=directory.keeps_weights),
        max_chunk_tokens=RuntimeConfig().prefill_chunk_tokens,
        quantum_s=0.5,
        usual_settings=True,
    ).platform.close()
    (kept,) = (tmp_path / "agentrt" / "profiles").glob("[!m]*.json")
    before = kept.read_bytes()
    program, *arguments = shlex.split(caplog.messages[-1].rpartition(": ")[2])
    assert program == "agentrt"
    assert arguments == ["profile", str(file), "--platform", "cpu"]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    assert kept.read_bytes() != before


@pytest.mark.check
def test_of_a_deep_model_only_some_layers_are_compiled_to_be_measured(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "deep.gguf"
    write_random_gguf(file, ModelShape("qwen2", 16, 64, 128, 2, 1, 512, 1024))
    compiled: list[int] = []
    compile_pieces = CompiledKernels.__init__

    def compile_counting(kernels: CompiledKernels, pieces: Any, *arguments: Any) -> None:
        for piece in itertools.chain(*pieces.values()):
            compiled.append(sum("key_cache." in port.get_any_name() for port in piece.inputs))
        compile_pieces(kernels, pieces, *arguments)

    monkeypatch.setattr(CompiledKernels, "__init__", compile_counting)
    monkeypatch.setattr(layer_sample, "_COLD_BYTES", 0)
    assert measure(open_model_directory(file, tmp_path)).layers == 16
    # The first and the last, two pairs of the others, and these pairs in one piece each.
    assert sorted(compiled) == [1] * 6 + [2] * 2


def test_every_layer_of_a_hybrid_model_is_measured_since_layers_differ() -> None:
    partition: Any = SimpleNamespace(
        layers=12, seams=frozenset(range(1, 12)), hybrid=True, layer_segments=lambda cuts: [None, *cuts]
    )
    sample = LayerSample.of(partition, layer_bytes=2**30, head_bytes=0)
    assert [sample.models[place] for place in sample.segments] == [None, *range(1, 12)]
    for pair, first, second in sample.pairs:
        assert sample.layers[pair] == sample.layers[first] + sample.layers[second] == 2


HIDDEN, INTERMEDIATE = 64, 128
# Two heads of 32, one of them with keys and values.
MATRICES = HIDDEN * (2 * 64 + 2 * 32) + 3 * HIDDEN * INTERMEDIATE


def test_work_is_that_of_the_shape(tiny_folder: Path) -> None:
    model = read_paged_graph(tiny_model(tiny_folder, "llama"))
    work = ModelWork.of(Partition(model))
    assert work.layer_flops == 2 * MATRICES
    assert work.head_flops == 2 * HIDDEN * VOCABULARY
    # 8 bits a weight, and 16 for each 32 of them; small constants are not counted.
    assert MATRICES <= work.layer_bytes <= MATRICES * 1.2
    assert HIDDEN * VOCABULARY <= work.head_bytes <= HIDDEN * VOCABULARY * 1.2
    outputs, inputs = 2 * 64 + 2 * 32 + 2 * INTERMEDIATE + HIDDEN, HIDDEN + 64 + HIDDEN + INTERMEDIATE
    assert work.activation_bytes == 4 * (outputs + inputs)
    whole = ModelWork.of(Partition(with_skip_connection(model)))  # cannot be cut
    assert whole.layer_flops == pytest.approx(2 * (MATRICES + HIDDEN * VOCABULARY / LAYERS), rel=0.01)
    assert whole.head_flops == 0
