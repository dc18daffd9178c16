"""Energy by RAPL, from folders like Linux's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.bench_model import RandomWords
from agentrt.bench.common.energy import Energy, EnergyMeter
from agentrt.bench.engine.main import energy_figures
from agentrt.bench.engine.speeds import Work

RANGE_UJ = 262_143_328_850


def domain(powercap: Path, number: str, name: str, energy_uj: int) -> Path:
    folder = powercap / f"intel-rapl:{number}"
    folder.mkdir(parents=True)
    for file, value in (("name", name), ("max_energy_range_uj", RANGE_UJ), ("energy_uj", energy_uj)):
        (folder / file).write_text(f"{value}\n")
    return folder / "energy_uj"


def test_packages_count_and_their_parts_do_not(tmp_path: Path) -> None:
    counters = [domain(tmp_path, "0", "package-0", 1_000_000), domain(tmp_path, "1", "package-1", 0)]
    others = [domain(tmp_path, "0:0", "core", 0), domain(tmp_path, "2", "psys", 0)]
    (tmp_path / "intel-rapl").mkdir()  # the control type has no counter
    meter = EnergyMeter(tmp_path)

    def work() -> None:
        counters[0].write_text("4000000\n")
        counters[1].write_text("500000\n")
        for each in others:
            each.write_text("9000000\n")

    assert meter.absent == ""
    assert meter.measure(work)[1].joules == 3.5
    assert Energy(joules=30.0, seconds=2.0).watts == 15.0


def test_a_counter_that_wraps_is_read_on(tmp_path: Path) -> None:
    counter = domain(tmp_path, "0", "package-0", RANGE_UJ - 1_000_000)
    written, energy = EnergyMeter(tmp_path).measure(lambda: counter.write_text("2000000"))
    assert (written, energy.joules) == (7, 3.0)


def test_why_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EnergyMeter(tmp_path / "none").absent.endswith("none has no package of intel-rapl")
    domain(tmp_path, "0", "package-0", 1)
    read_text = Path.read_text

    def refused(file: Path, **options: Any) -> str:
        if file.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(file))
        return read_text(file, **options)

    monkeypatch.setattr(Path, "read_text", refused)
    assert EnergyMeter(tmp_path).absent.endswith("energy_uj cannot be read (Permission denied)")


class Answering:
    """A side whose answers have ten tokens, each for a tenth of a joule."""

    new_tokens = 10

    def __init__(self, counter: Path) -> None:
        self._counter = counter

    def generate(self, request: object) -> Answering:
        self._counter.write_text(str(int(self._counter.read_text()) + 1_000_000))
        return self


def test_the_engine_bench_has_joules_a_token_where_they_can_be_read(tmp_path: Path) -> None:
    side: Any = Answering(domain(tmp_path, "0", "package-0", 0))
    work = Work(3, 1, 1, 1, 1, 1, (), 1)
    figures = energy_figures(EnergyMeter(tmp_path), side, RandomWords(1), work)
    assert figures["joules_per_token"].value == pytest.approx(0.1)
    assert figures["mean_watts"].value > 0
    assert energy_figures(EnergyMeter(tmp_path / "none"), side, RandomWords(1), work) == {}
