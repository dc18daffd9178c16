import os
import sys
from importlib import metadata

import pytest

from agentrt.bench.common.machine import describe_machine


def test_every_field_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "win32":
        monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 1.0, 0.5))
    machine = describe_machine()
    assert machine.cpu.strip()
    assert 1 <= machine.usable_cores <= machine.logical_cores
    assert machine.memory_bytes > 64 * 2**20
    assert machine.operating_system.strip()
    assert machine.python == f"CPython {'.'.join(map(str, sys.version_info[:3]))}"
    assert machine.openvino == metadata.version("openvino")
    assert machine.load_average == (None if sys.platform == "win32" else (1.5, 1.0, 0.5))


@pytest.mark.skipif(sys.platform != "linux", reason="core affinity is set through a Linux call")
def test_only_the_cores_this_process_may_use_are_counted() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert describe_machine().usable_cores == 1
    finally:
        os.sched_setaffinity(0, before)


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(distribution: str) -> str:
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "version", version)
    assert describe_machine().openvino is None
