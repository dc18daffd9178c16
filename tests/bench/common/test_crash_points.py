"""No killed process loses what it had stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.bench.common import crash_points as module
from agentrt.bench.common.crash_points import crash_points
from agentrt.errors import BenchProcessError


@pytest.mark.slow
def test_killed_processes_lose_nothing(tmp_path: Path) -> None:
    result = crash_points(tmp_path, tries=20)
    assert result.problems == ()
    assert result.survived == result.tried == 20


@pytest.mark.slow
def test_what_is_lost_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is gone is a problem, each time."""
    found = module._found

    def found_less(folder: Path):
        stored, damaged = found(folder)
        for text, _ in stored["app 0"].values():
            text[:] = []
        return stored, damaged

    monkeypatch.setattr(module, "_found", found_less)
    monkeypatch.setattr(module, "_LONGEST_LOAD_S", 0.5)
    result = crash_points(tmp_path, tries=2)
    assert result.survived < result.tried
    assert all(problem.startswith("app 0 after load 0-") for problem in result.problems)


@pytest.mark.slow
def test_a_process_that_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BenchProcessError, match="ContextStoreError"):
        crash_points(tmp_path / "file" / "contexts", tries=1)
