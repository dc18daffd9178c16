from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.xpu import machine, platforms
from agentrt.runtime.xpu.machine import available_memory, measure_read_bandwidth
from agentrt.runtime.xpu.platforms import find_platform
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


def test_read_bandwidth_is_plausible() -> None:
    assert 1e8 < measure_read_bandwidth() < 1e13
