from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.xpu import machine, platforms
from agentrt.runtime.xpu.kv_arena import KVArena
from agentrt.runtime.xpu.loading import LoadedModel
from agentrt.runtime.xpu.machine import available_memory, measure_read_bandwidth
from agentrt.runtime.xpu.platforms import find_platform
from tests.hypothesis_profiles import first_of
from tests.runtime.tiny import load, tiny_model


def machine_with(monkeypatch: pytest.MonkeyPatch, *devices: str) -> None:
    class Core:
        available_devices = devices

    monkeypatch.setattr(platforms, "openvino_core", Core)


def test_auto_takes_npu_and_gpu_where_both_are(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_with(monkeypatch, "CPU", "GPU.0", "GPU.1", "NPU")
    name, devices = find_platform("auto")
    assert name == "intel-ultra"
    assert {role: device.name for role, device in devices.items()} == {
        Role.PREFILL: "NPU",
        Role.DECODE: "GPU",
    }


@pytest.mark.parametrize("devices", [("CPU",), ("CPU", "GPU"), ("CPU", "NPU")])
def test_auto_takes_the_cpu_elsewhere(monkeypatch: pytest.MonkeyPatch, devices: tuple[str, ...]) -> None:
    machine_with(monkeypatch, *devices)
    assert find_platform("auto")[0] == "cpu"


def test_a_platform_whose_devices_are_missing_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_with(monkeypatch, "CPU", "GPU")
    with pytest.raises(ConfigurationError, match=r"needs NPU.*only CPU, GPU"):
        find_platform("intel-ultra")


def test_unknown_platform_error_names_the_known() -> None:
    with pytest.raises(ConfigurationError, match=r"'cpu', 'emulated', 'intel-ultra'"):
        find_platform("tpu")


def test_emulated_xpus_have_one_unpinned_thread_each(tiny_folder: Path) -> None:
    loaded = load(tiny_model(tiny_folder, "qwen2"), "emulated", static_tokens=32)
    assert set(loaded.platform.xpus) == {Role.PREFILL, Role.DECODE}
    for xpu in loaded.platform.xpus.values():
        for compiled in xpu.kernels.models:
            assert compiled.get_property("INFERENCE_NUM_THREADS") == 1
            # Pinned, both would sit on the first core.
            assert compiled.get_property("ENABLE_CPU_PINNING") is False


def test_available_memory_is_what_linux_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(machine, "_MEMINFO", meminfo)
    assert available_memory() is None, "other systems have no such file"
    meminfo.write_text("MemTotal:        4000 kB\n")
    assert available_memory() is None
    meminfo.write_text("MemTotal:        4000 kB\nMemAvailable:    3000 kB\n")
    assert available_memory() == 3000 * 1024


@pytest.mark.slow
def test_read_bandwidth_is_plausible() -> None:
    assert 1e8 < measure_read_bandwidth() < 1e13


@pytest.fixture(scope="module")
def model(load: Callable[..., LoadedModel]) -> LoadedModel:
    return load()


def arena_of(model: LoadedModel, memory_bytes: int) -> KVArena:
    return KVArena(model.layout, model.platform, memory_bytes)


@pytest.mark.parametrize("memory_bytes", [2**20, 2**22 + 1, 10**7])
def test_the_budget_is_used_and_never_exceeded(model: LoadedModel, memory_bytes: int) -> None:
    arena = arena_of(model, memory_bytes)
    tensors = model.platform.xpus[Role.DECODE].caches.values()
    allocated = sum(tensor.byte_size for tensor in tensors)
    assert allocated == arena.memory_bytes <= memory_bytes < allocated + model.layout.block_bytes
    assert {tensor.shape[0] for tensor in tensors} == {arena.blocks}
    assert arena.capacity_tokens == arena.blocks * 32


def test_the_budget_must_hold_a_block(model: LoadedModel) -> None:
    least = model.layout.block_bytes
    assert arena_of(model, least).blocks == 1
    with pytest.raises(ConfigurationError, match=f"memory_bytes.*{least} bytes"):
        arena_of(model, least - 1)


@pytest.mark.parametrize("precision", first_of(["u8", "f32", "f16"]))
def test_whether_keys_are_quantised_is_read_off_the_model(
    load: Callable[..., LoadedModel], precision: str
) -> None:
    loaded = load(KV_CACHE_PRECISION=precision)
    assert arena_of(loaded, 2**20).quantised_keys == (precision == "u8")


def test_a_budget_beyond_the_machine_is_refused(model: LoadedModel) -> None:
    with pytest.raises(ConfigurationError, match="smaller arena"):
        arena_of(model, 2**60)
