"""Conditions of the machine under which background work runs: power supply, load of other programs, heat.

All of it is read from ``/proc`` and ``/sys`` of Linux. What cannot be read is no obstacle, so that elsewhere
there is none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import Field

from agentrt.concurrency.clock import monotonic
from agentrt.settings import Settings

WINDOW_S: Final = 1.0
"""Least time over which the load is measured that may not exceed the limit. The clock ticks of a second tell
that of a processor to 1 %."""
GLANCE_S: Final = 0.2
"""The same for a load that is :data:`_MUCH` times the limit, so that little of a build is over by then."""
_MUCH: Final = 1.5
CALM_S: Final = 10.0
"""How long load or heat must have been within the limit before work runs again: longer than the pauses of one
activity, such as a build or the reading of a page, and long enough for a fan to take effect."""
_BATTERIES: Final = ("Battery", "UPS")
_PROCESSOR_CHIPS: Final = ("coretemp", "k10temp", "zenpower")
"""Drivers of the sensors in processors, of which AMD's have no thermal zone."""
_DISCONNECTED_CELSIUS: Final = 127.0
"""What a sensor reads at least where nothing is connected: the greatest signed byte."""


class BackgroundConditions(Settings, strict=True):
    """What must hold for background work to run. Immutable.

    Raises:
        ConfigurationError: a field is unknown or its value cannot work.
    """

    on_battery: bool = False
    """Whether background work runs while a battery or a UPS supplies the machine."""

    max_other_load: float | None = Field(default=0.25, gt=0, le=1)
    """Share of all processors' time that other programs, of whatever priority, may use; None for any. In a
    container it is that of the whole machine."""

    max_celsius: float | None = Field(default=None, gt=0, lt=_DISCONNECTED_CELSIUS)
    """Temperature that no thermal zone and no sensor in a processor may exceed; None for any."""


class Reason(StrEnum):
    """Why background work waits."""

    ON_BATTERY = "on_battery"
    HEAT = "heat"
    OTHER_LOAD = "other_load"
    MEASURING = "measuring"
    """The load is known a second after it was first asked for."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason for which background work waits, and a text that says it to people."""

    reason: Reason
    text: str


class MachineConditions:
    """The conditions as they are on this machine. For one thread."""

    def __init__(
        self,
        conditions: BackgroundConditions,
        *,
        root: Path = Path("/"),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``root`` is the folder that has ``proc`` and ``sys``; ``clock`` returns seconds."""
        self._conditions = conditions
        self._root = root
        self._clock = clock
        self._looked_at = float("-inf")
        self._obstacle: Obstacle | None = None
        # The times at the last look, and at the begin of the window.
        self._glance: CpuTimes | None = None
        self._window: CpuTimes | None = None
        self._measured = False
        self._last_over: dict[Reason, float] = {}

    def obstacle(self) -> Obstacle | None:
        """Return why background work may not run now, None if it may.

        Within :data:`GLANCE_S` of a look its result is returned. The load is that since the last look, and
        that since the previous measurement, :data:`WINDOW_S` ago or more.
        """
        now = self._clock()
        if now - self._looked_at >= GLANCE_S:
            self._looked_at = now
            self._obstacle = next(filter(None, [self._power(), self._heat(now), self._load(now)]), None)
        return self._obstacle

    def _power(self) -> Obstacle | None:
        if self._conditions.on_battery or not on_battery(self._root):
            return None
        return Obstacle(Reason.ON_BATTERY, "the machine runs on battery")

    def _heat(self, now: float) -> Obstacle | None:
        limit = self._conditions.max_celsius
        if limit is None:
            return None
        hottest = hottest_sensor(self._root)
        if hottest is not None and hottest[0] > limit:
            celsius, name = hottest
            self._last_over[Reason.HEAT] = now
            return Obstacle(Reason.HEAT, f"the sensor {name} is at {celsius:.0f} °C")
        return self._not_calm(Reason.HEAT, f"a sensor was above {limit:g} °C", now)

    def _load(self, now: float) -> Obstacle | None:
        limit = self._conditions.max_other_load
        if limit is None:
            return None
        times = read_cpu_times(self._root, now)
        load = self._load_until(times, limit) if times is not None else None
        if load is not None and load > limit:
            self._last_over[Reason.OTHER_LOAD] = now
            return Obstacle(Reason.OTHER_LOAD, f"other programs use {_percent(load)} of the processors")
        if self._window is not None and not self._measured:
            return Obstacle(Reason.MEASURING, "the load of other programs is being measured")
        used = f"other programs used more than {_percent(limit)} of the processors"
        return self._not_calm(Reason.OTHER_LOAD, used, now)

    def _load_until(self, times: CpuTimes, limit: float) -> float | None:
        """Return the load of the window that ends, or one since the last look that is far above ``limit``."""
        glance, self._glance = self._glance, times
        window = self._window = self._window or times
        if times.at - window.at >= WINDOW_S:
            self._window, self._measured = times, True
            return other_load(window, times)
        load = other_load(glance, times) if glance is not None else None
        return load if load is not None and load > _MUCH * limit else None

    def _not_calm(self, reason: Reason, was: str, now: float) -> Obstacle | None:
        """Return the obstacle of a value that is within its limit again, None if it has been for long."""
        since = now - self._last_over.get(reason, float("-inf"))
        return Obstacle(reason, f"{was} {since:.0f} s ago") if since < CALM_S else None


def on_battery(root: Path) -> bool:
    """Whether a battery supplies the machine: one discharges, and no other supply is online.

    Batteries of devices, such as mice, do not count.
    """
    discharges = False
    for supply in _entries(root / "sys/class/power_supply"):
        if _read(supply / "scope") == "Device":
            continue
        if _read(supply / "type") in _BATTERIES:
            discharges |= _read(supply / "status") == "Discharging"
        elif _read(supply / "online") in ("1", "2"):  # 2: USB whose voltage can be chosen
            return False
    return discharges


def hottest_sensor(root: Path) -> tuple[float, str] | None:
    """Return the °C and the name of the hottest thermal zone or sensor in a processor; None without any."""
    return max(_sensors(root), default=None)


def _sensors(root: Path) -> Iterator[tuple[float, str]]:
    files = [
        (zone / "temp", zone / "type")
        for zone in _entries(root / "sys/class/thermal")
        if zone.name.startswith("thermal_zone")
    ]
    files += [
        (file, chip / "name")
        for chip in _entries(root / "sys/class/hwmon")
        if _read(chip / "name") in _PROCESSOR_CHIPS
        for file in _entries(chip)
        if re.fullmatch("temp[0-9]+_input", file.name)
    ]
    for file, name in files:
        try:
            celsius = int(_read(file)) / 1000
        except ValueError:
            continue
        if celsius < _DISCONNECTED_CELSIUS:
            yield celsius, _read(name) or file.parent.name


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds that processors were busy until the moment ``at``."""

    at: float
    busy: float
    """All processors, whatever for."""
    own: float
    """For this process and its children that have ended."""
    processors: int


def read_cpu_times(root: Path, at: float) -> CpuTimes | None:
    """Return the times now, at ``at``; None where the system does not say."""
    lines = [line.split() for line in _read(root / "proc/stat").splitlines() if line.startswith("cpu")]
    own = _read(root / "proc/self/stat").rpartition(")")[2].split()  # the name before it may be any text
    try:
        # Guests' time is also user time; iowait, which may decrease, and steal are no work of this machine.
        user, nice, system, _idle, _iowait, irq, softirq = map(int, lines[0][1:8])
        own_user, own_system, childrens_user, childrens_system = map(int, own[11:15])
    except (IndexError, ValueError):
        return None
    busy_ticks = user + nice + system + irq + softirq
    own_ticks = own_user + own_system + childrens_user + childrens_system
    per_second = os.sysconf("SC_CLK_TCK")
    return CpuTimes(at, busy_ticks / per_second, own_ticks / per_second, len(lines) - 1)


def other_load(before: CpuTimes, after: CpuTimes) -> float | None:
    """Return the share of the processors' time, 0 to 1, that other processes used between two moments.

    None if the times do not say: no time has passed, there is no processor, or a counter began anew.
    """
    capacity = (after.at - before.at) * after.processors
    busy, own = after.busy - before.busy, after.own - before.own
    if capacity <= 0 or busy < 0 or own < 0:
        return None
    return min(max(busy - own, 0.0) / capacity, 1.0)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if it cannot be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _read(file: Path) -> str:
    """Return the text of a file without the white space around it; none if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
