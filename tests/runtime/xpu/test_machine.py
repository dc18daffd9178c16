from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.runtime.xpu import machine
from agentrt.runtime.xpu.machine import PowerMeter, available_memory, measure_read_bandwidth


def counter(powercap: Path, name: str, microjoules: int, span: int = 10**9) -> Path:
    folder = powercap / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    (folder / "max_energy_range_uj").write_text(f"{span}\n")
    return folder / "energy_uj"


def test_available_memory_is_what_linux_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(machine, "_MEMINFO", meminfo)
    assert available_memory() is None, "other systems have no such file"
    meminfo.write_text("MemTotal:        4000 kB\n")
    assert available_memory() is None
    meminfo.write_text("MemTotal:        4000 kB\nMemAvailable:    3000 kB\n")
    assert available_memory() == 3000 * 1024


def test_packages_add_up_and_their_parts_are_not_counted_twice(tmp_path: Path) -> None:
    first = counter(tmp_path, "intel-rapl:0", 1_000_000)
    second = counter(tmp_path, "intel-rapl:1", 5_000_000)
    core = counter(tmp_path, "intel-rapl:0:0", 0)
    meter = PowerMeter.find(tmp_path)
    assert meter is not None
    assert meter.joules() == 0.0
    first.write_text("2500000\n")
    second.write_text("5500000\n")
    core.write_text("1000000\n")
    assert meter.joules() == pytest.approx(2.0)
    assert meter.joules() == pytest.approx(2.0)


def test_counters_may_wrap_around(tmp_path: Path) -> None:
    energy = counter(tmp_path, "intel-rapl:0", 9_500_000, span=9_999_999)
    meter = PowerMeter.find(tmp_path)
    assert meter is not None
    energy.write_text("500000\n")
    assert meter.joules() == pytest.approx(1.0)


def test_machines_without_a_meter_have_none(tmp_path: Path) -> None:
    assert PowerMeter.find(tmp_path) is None
    assert PowerMeter.find(tmp_path / "nowhere") is None
    (tmp_path / "intel-rapl:0").mkdir()  # there, but its counter cannot be read
    assert PowerMeter.find(tmp_path) is None


def test_read_bandwidth_is_plausible() -> None:
    assert 1e8 < measure_read_bandwidth() < 1e13
