import os
import sys
from importlib import metadata

import pytest

from agentrt.bench.common.machine import describe_machine


def test_every_field_says_something() -> None:
    machine = describe_machine()

    assert machine.cpu.strip()
    assert 1 <= machine.usable_cores <= machine.logical_cores
    assert machine.memory_bytes > 64 * 2**20
    assert machine.operating_system.strip()
    assert machine.python == f"CPython {'.'.join(map(str, sys.version_info[:3]))}"


@pytest.mark.skipif(sys.platform != "linux", reason="core affinity is set through a Linux call")
def test_only_the_cores_this_process_may_use_are_counted() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert describe_machine().usable_cores == 1
    finally:
        os.sched_setaffinity(0, before)


def test_the_openvino_version_is_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"openvino": "2026.4.1"}

    def version(distribution: str) -> str:
        if distribution not in versions:
            raise metadata.PackageNotFoundError(distribution)
        return versions[distribution]

    monkeypatch.setattr(metadata, "version", version)
    assert describe_machine().openvino == "2026.4.1"
    versions.clear()
    assert describe_machine().openvino is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no load average")
def test_the_load_is_taken_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 1.0, 0.5))
    assert describe_machine().load_average == (1.5, 1.0, 0.5)
