"""Whether background work may run, on machines whose files are simulated and in virtual time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import ConfigurationError
from agentrt.runtime.pool.background.conditions import (
    CALM_S,
    WINDOW_S,
    BackgroundConditions,
    CpuTimes,
    MachineConditions,
    Obstacle,
    Reason,
    hottest_sensor,
    on_battery,
    other_load,
    read_cpu_times,
)

TICKS = os.sysconf("SC_CLK_TCK")


class Machine:
    """The files of a machine and its clock; idle, on mains, with four processors, until it is changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 1000.0
        self.processors = 4
        self.busy = 500.0
        self.own = 20.0
        self.tick()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")

    def supply(self, name: str, **files: str) -> None:
        for file, text in files.items():
            self.write(f"sys/class/power_supply/{name}/{file}", text)

    def tick(self, seconds: float = 0.0, *, others: float = 0.0, own: float = 0.0) -> None:
        """Let time pass, in which other programs and this one use so many processors."""
        self.now += seconds
        self.own += own * seconds
        self.busy += (own + others) * seconds
        busy = round(self.busy * TICKS)
        each = f"{busy} 0 0 900000 70 0 0 800 0 0"
        lines = [f"cpu  {each}", *(f"cpu{number} {each}" for number in range(self.processors)), "intr 12 3 4"]
        self.write("proc/stat", "\n".join(lines))
        self.write("proc/self/stat", f"77 (a (b) c) R {'0 ' * 10}{round(self.own * TICKS)} 0 0 0 20 0 8")

    def conditions(self, **settings: object) -> MachineConditions:
        return MachineConditions(BackgroundConditions(**settings), root=self.root, clock=lambda: self.now)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def reason(conditions: MachineConditions) -> Reason | None:
    obstacle = conditions.obstacle()
    return obstacle and obstacle.reason


def test_nothing_that_cannot_be_read_is_an_obstacle(tmp_path: Path) -> None:
    conditions = MachineConditions(BackgroundConditions(max_celsius=50), root=tmp_path)

    assert conditions.obstacle() is None


@pytest.mark.parametrize("settings", [{"max_other_load": 0}, {"max_other_load": 1.5}, {"max_celsius": 127}])
def test_limits_that_cannot_work_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        BackgroundConditions(**settings)


MAINS = {"type": "Mains"}
BATTERY = {"type": "Battery", "scope": "System"}
DISCHARGING = {**BATTERY, "status": "Discharging"}
FULL = {**BATTERY, "status": "Full"}


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        pytest.param([], False, id="desktop"),
        pytest.param([{**MAINS, "online": "1"}], False, id="mains only"),
        pytest.param([{**MAINS, "online": "0"}, DISCHARGING], True, id="laptop"),
        pytest.param([{"type": "Battery", "status": "Discharging"}], True, id="no scope, no mains"),
        pytest.param([{**MAINS, "online": "1"}, {**BATTERY, "status": "Charging"}], False, id="charging"),
        pytest.param([{**MAINS, "online": "1"}, DISCHARGING], False, id="plugged, above its threshold"),
        pytest.param([FULL, DISCHARGING, FULL], True, id="one of three batteries"),
        pytest.param([{**MAINS, "online": "0"}, {**BATTERY, "status": "Unknown"}], False, id="not known"),
        pytest.param([{"type": "USB", "online": "1"}, DISCHARGING], False, id="USB"),
        pytest.param([{"type": "USB", "online": "2"}, DISCHARGING], False, id="USB with chosen voltage"),
        pytest.param([{"type": "USB", "online": "0"}, DISCHARGING], True, id="USB port without charger"),
        pytest.param([{**DISCHARGING, "scope": "Device"}], False, id="mouse"),
        pytest.param(
            [{**MAINS, "online": "1", "scope": "Device"}, DISCHARGING], True, id="supply of a device"
        ),
        pytest.param([{"type": "UPS", "online": "1", "status": "Discharging"}], True, id="UPS without mains"),
        pytest.param([{"type": "UPS", "online": "1", "status": "Full"}], False, id="UPS"),
        pytest.param([DISCHARGING, {"type": "\x00?", "online": "yes"}], True, id="garbled supply"),
        pytest.param([{"status": "Discharging"}], False, id="battery without type"),
    ],
)
def test_a_battery_that_supplies_the_machine_is_seen(
    machine: Machine, supplies: list[dict[str, str]], expected: bool
) -> None:
    for number, files in enumerate(supplies):
        machine.supply(f"supply{number}", **files)

    assert on_battery(machine.root) is expected
    assert (reason(machine.conditions(max_other_load=None)) is Reason.ON_BATTERY) is expected
    assert machine.conditions(max_other_load=None, on_battery=True).obstacle() is None


def test_work_runs_again_as_soon_as_the_machine_is_plugged_in(machine: Machine) -> None:
    machine.supply("AC", type="Mains", online="0")
    machine.supply("BAT0", **DISCHARGING)
    conditions = machine.conditions(max_other_load=None)
    assert conditions.obstacle() == Obstacle(Reason.ON_BATTERY, "the machine runs on battery")

    machine.supply("AC", online="1")
    machine.tick(WINDOW_S)

    assert conditions.obstacle() is None


def test_the_load_is_known_a_second_after_it_was_first_asked_for(machine: Machine) -> None:
    conditions = machine.conditions()
    assert reason(conditions) is Reason.MEASURING

    machine.tick(0.5)
    assert reason(conditions) is Reason.MEASURING

    machine.tick(0.5)
    assert conditions.obstacle() is None


def measured(machine: Machine, **settings: object) -> MachineConditions:
    """Return conditions that allow work: the machine has been idle."""
    conditions = machine.conditions(**settings)
    conditions.obstacle()
    machine.tick(WINDOW_S)
    assert conditions.obstacle() is None
    return conditions


def test_work_waits_while_other_programs_use_more_than_the_limit(machine: Machine) -> None:
    conditions = measured(machine)

    machine.tick(1, others=0.9)
    assert conditions.obstacle() is None

    machine.tick(1, others=2.52)
    assert conditions.obstacle() == Obstacle(Reason.OTHER_LOAD, "other programs use 63 % of the processors")


def test_own_work_is_no_load(machine: Machine) -> None:
    conditions = measured(machine)

    machine.tick(1, own=3.5, others=0.5)

    assert conditions.obstacle() is None


def test_any_load_is_allowed_on_request(machine: Machine) -> None:
    conditions = machine.conditions(max_other_load=None)
    assert conditions.obstacle() is None

    machine.tick(1, others=4)

    assert conditions.obstacle() is None


def test_work_that_waited_for_load_runs_after_a_calm_time(machine: Machine) -> None:
    conditions = measured(machine)
    machine.tick(1, others=4)
    assert reason(conditions) is Reason.OTHER_LOAD

    machine.tick(4)
    assert conditions.obstacle() == Obstacle(
        Reason.OTHER_LOAD, "other programs used more than 25 % of the processors 4 s ago"
    )
    machine.tick(1, others=4)
    assert reason(conditions) is Reason.OTHER_LOAD
    for _ in range(int(CALM_S) - 1):
        machine.tick(1)
        assert reason(conditions) is Reason.OTHER_LOAD
    machine.tick(1)
    assert conditions.obstacle() is None


def test_a_spike_shorter_than_the_window_counts_far_above_the_limit_only(
    machine: Machine,
) -> None:
    conditions = measured(machine)

    machine.tick(0.25, others=1.4)
    assert conditions.obstacle() is None
    machine.tick(0.75)
    assert conditions.obstacle() is None
    machine.tick(0.25, others=1.6)
    assert conditions.obstacle() == Obstacle(Reason.OTHER_LOAD, "other programs use 40 % of the processors")


@pytest.mark.parametrize("file", ["proc/stat", "proc/self/stat"])
@pytest.mark.parametrize("text", ["", "cpu", "cpu x y z 1 2 3 4", "77 (python) R 1 2"])
def test_a_garbled_file_makes_the_window_longer(machine: Machine, file: str, text: str) -> None:
    conditions = measured(machine)

    machine.tick(1)
    machine.write(file, text)
    assert conditions.obstacle() is None

    machine.tick(1, others=4)
    assert conditions.obstacle() == Obstacle(Reason.OTHER_LOAD, "other programs use 50 % of the processors")


def test_a_counter_that_begins_anew_is_no_load(machine: Machine) -> None:
    conditions = measured(machine)

    machine.busy = 0
    machine.tick(1, others=4)
    assert conditions.obstacle() is None

    machine.tick(1, others=4)
    assert reason(conditions) is Reason.OTHER_LOAD


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"thermal/thermal_zone0/temp": "45000", "thermal/thermal_zone0/type": "acpitz"}, (45, "acpitz")),
        ({"thermal/thermal_zone0/temp": "45000"}, (45, "thermal_zone0")),
        ({"thermal/cooling_device0/temp": "45000"}, None),
        ({"hwmon/hwmon3/name": "k10temp", "hwmon/hwmon3/temp1_input": "91500"}, (91.5, "k10temp")),
        ({"hwmon/hwmon3/name": "k10temp", "hwmon/hwmon3/temp1_crit": "91500"}, None),
        ({"hwmon/hwmon3/name": "nvme", "hwmon/hwmon3/temp1_input": "91500"}, None),
        (
            {
                "thermal/thermal_zone0/temp": "127000",
                "thermal/thermal_zone1/temp": "",
                "thermal/thermal_zone2/temp": "-5000",
                "thermal/thermal_zone2/type": "outside",
            },
            (-5, "outside"),
        ),
        (
            {
                "thermal/thermal_zone0/temp": "60000",
                "hwmon/hwmon0/name": "coretemp",
                "hwmon/hwmon0/temp1_input": "50000",
                "hwmon/hwmon0/temp12_input": "71000",
            },
            (71, "coretemp"),
        ),
    ],
)
def test_the_hottest_sensor_is_found(
    machine: Machine, files: dict[str, str], expected: tuple[float, str] | None
) -> None:
    for path, text in files.items():
        machine.write(f"sys/class/{path}", text)

    assert hottest_sensor(machine.root) == expected


def test_work_that_waited_for_heat_runs_after_a_calm_time(machine: Machine) -> None:
    temperature = "sys/class/thermal/thermal_zone0/temp"
    machine.write("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp")
    machine.write(temperature, "90000")
    conditions = measured(machine, max_celsius=90)

    machine.write(temperature, "91000")
    machine.tick(1)
    assert conditions.obstacle() == Obstacle(Reason.HEAT, "the sensor x86_pkg_temp is at 91 °C")

    machine.write(temperature, "70000")
    machine.tick(CALM_S - 1)
    assert conditions.obstacle() == Obstacle(Reason.HEAT, "a sensor was above 90 °C 9 s ago")
    machine.tick(1)
    assert conditions.obstacle() is None


def test_load_is_measured_while_another_obstacle_is_shown(machine: Machine) -> None:
    conditions = measured(machine)
    machine.supply("BAT0", **DISCHARGING)
    machine.tick(1, others=4)
    assert reason(conditions) is Reason.ON_BATTERY

    machine.supply("BAT0", status="Charging")
    machine.tick(CALM_S - 1)

    assert reason(conditions) is Reason.OTHER_LOAD


def test_the_files_are_read_a_few_times_a_second(machine: Machine) -> None:
    conditions = measured(machine)

    machine.supply("BAT0", **DISCHARGING)
    machine.tick(0.1)
    assert conditions.obstacle() is None
    machine.tick(0.1)
    assert reason(conditions) is Reason.ON_BATTERY


counters = st.integers(min_value=0, max_value=2**64 - 1)


@given(st.lists(counters, min_size=10, max_size=10), st.lists(counters, min_size=4, max_size=4))
def test_the_times_are_those_of_the_files(
    tmp_path_factory: pytest.TempPathFactory, machine_ticks: list[int], own_ticks: list[int]
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.write("proc/stat", f"cpu  {' '.join(map(str, machine_ticks))}\ncpu0 1 2\ncpu5 1 2\nctxt 8")
    machine.write("proc/self/stat", f"7 (a) b) c) R {'9 ' * 10}{' '.join(map(str, own_ticks))} 20 0")

    user, nice, system, _, _, irq, softirq, *_ = machine_ticks
    assert read_cpu_times(machine.root, 5.0) == CpuTimes(
        5.0, (user + nice + system + irq + softirq) / TICKS, sum(own_ticks) / TICKS, 2
    )


seconds = st.integers(min_value=0, max_value=20).map(float)
times = st.builds(CpuTimes, seconds, seconds, seconds, st.integers(min_value=0, max_value=4))


@given(times, times)
def test_a_load_is_a_share_whatever_the_counters_do(before: CpuTimes, after: CpuTimes) -> None:
    load = other_load(before, after)

    grew = after.at > before.at and after.busy >= before.busy and after.own >= before.own
    assert (load is not None) == (grew and after.processors > 0)
    assert load is None or 0 <= load <= 1


@given(
    before=times,
    elapsed=st.integers(min_value=1, max_value=3600),
    processors=st.integers(min_value=1, max_value=256),
    others=st.floats(min_value=0, max_value=1),
    own=st.floats(min_value=0, max_value=1),
)
def test_the_load_is_what_others_used(
    before: CpuTimes, elapsed: int, processors: int, others: float, own: float
) -> None:
    capacity = elapsed * processors
    after = CpuTimes(
        before.at + elapsed,
        before.busy + (own + others) * capacity,
        before.own + own * capacity,
        processors,
    )

    assert other_load(before, after) == pytest.approx(others, abs=1e-6)


@given(st.floats(min_value=0, max_value=100), st.floats(min_value=0, max_value=100))
def test_own_use_above_that_of_the_machine_leaves_none_to_others(busy: float, more: float) -> None:
    assert other_load(CpuTimes(0, 0, 0, 4), CpuTimes(1, busy, busy + more, 4)) == 0


def test_more_use_than_there_was_time_is_all_of_it() -> None:
    assert other_load(CpuTimes(0, 0, 0, 2), CpuTimes(1, 2.5, 0, 2)) == 1
