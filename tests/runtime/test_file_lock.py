"""Locks between processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.runtime.file_lock import file_lock


def test_a_lock_that_is_held_is_refused_without_waiting(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with file_lock(file), pytest.raises(BlockingIOError, match="is locked"), file_lock(file, wait=False):
        pass
    with file_lock(file, wait=False):
        pass
