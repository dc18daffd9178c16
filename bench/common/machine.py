"""Description of the machine a bench ran on."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Machine(BaseModel):
    """A description of this machine, taken when the bench starts.

    ``usable_cores`` counts the logical cores this process may run on, which a container or ``taskset``
    can make fewer than ``logical_cores``. ``load_average`` is over 1, 5 and 15 minutes, in runnable
    processes, and ``None`` on systems without it (Windows). Timings taken at a load near the number of cores
    are unreliable.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: str
    logical_cores: int
    usable_cores: int
    memory_bytes: int
    operating_system: str
    python: str
    openvino: str | None
    load_average: tuple[float, float, float] | None


def describe_machine() -> Machine:
    """Describe the machine as it is now; reads local system files only, and never the network."""
    return Machine(
        cpu=_cpu(),
        logical_cores=os.cpu_count() or 1,
        usable_cores=_usable_cores(),
        memory_bytes=_memory_bytes(),
        operating_system=platform.platform(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        openvino=_installed_version("openvino"),
        load_average=_load_average(),
    )


def peak_memory_bytes(process: int | str = "self") -> int | None:
    """Return the peak resident memory of this process, or of one with this id; None outside of Linux.

    ``getrusage`` is not used: it also counts the process image before ``exec``.
    """
    if sys.platform != "linux":
        return None
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def wakeups(process: int | str = "self") -> dict[str, int]:
    """Return how often each thread of this process, or of one with this id, has waited; {} without Linux."""
    found: dict[str, int] = {}
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        with suppress(ProcessLookupError, FileNotFoundError):  # a thread that has ended
            lines = status.read_text(encoding="utf-8").splitlines()
            found[status.parent.name] = next(
                int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt")
            )
    return found


def _cpu() -> str:
    """The processor's marketing name, or its architecture where the name is unknown."""
    if sys.platform == "linux":
        names = [
            value.strip()
            for key, _, value in (
                line.partition(":") for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            )
            if key.strip() == "model name"
        ]
        return names[0] if names else platform.machine()
    if sys.platform == "darwin":
        asked = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            check=False,
        )
        return asked.stdout.strip() or platform.machine()
    return platform.processor() or platform.machine()


def _usable_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    """Physical memory in bytes."""
    if sys.platform == "win32":
        # GetPhysicallyInstalledSystemMemory answers in KiB.
        kibibytes = ctypes.c_ulonglong(0)
        if not ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kibibytes)):
            raise ctypes.WinError()
        return kibibytes.value * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _load_average() -> tuple[float, float, float] | None:
    if sys.platform == "win32":
        return None
    return os.getloadavg()


def _installed_version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
