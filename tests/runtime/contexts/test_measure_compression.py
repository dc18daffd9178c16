"""Contexts of a real runtime in fewer bits: measured once, stored smaller, found again after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.model.opening import OpeningStep

PROMPT = [{"role": "user", "content": "Find my notes about lasagne and about the trip to Porto. " * 24}]
MEASURING = "measuring: how much compression the model bears"


def open_nano(folder: Path, compression: float | None, steps: list[str], **options: float) -> LocalRuntime:
    def note(step: OpeningStep) -> None:
        steps.append(step.name)

    config = RuntimeConfig(
        context_folder=folder / f"contexts-{compression}",
        profile_folder=folder / "profiles",
        context_compression=compression,
        **options,  # type: ignore[arg-type]
    )
    return LocalRuntime.open("nano", config, on_step=note)


def stored(folder: Path, compression: float | None, **options: float) -> tuple[int, list[str]]:
    """Generate, restart, generate again; return the bytes of the stored chunks, and the steps of opening."""
    steps: list[str] = []
    with open_nano(folder, compression, steps, **options) as runtime:
        runtime.generate(PROMPT, app="notes", max_tokens=2)
    with open_nano(folder, compression, steps, **options) as runtime:
        runtime.generate(PROMPT, app="notes", max_tokens=2)
        contexts = runtime.statistics().contexts
    assert contexts is not None
    assert contexts.chunks_in > 0
    assert contexts.damaged_chunks == 0
    files = (folder / f"contexts-{compression}").glob("**/*.chunks")
    return sum(file.stat().st_size for file in files), steps


@pytest.mark.check
def test_chunks_are_stored_in_the_ratio_that_the_model_bears(tmp_path: Path) -> None:
    whole, steps = stored(tmp_path, None)
    assert MEASURING not in steps
    compressed, steps = stored(tmp_path, 0.5, context_tolerance=1.0)
    assert steps.count(MEASURING) == 1, "the second opening finds what was measured"
    assert 0.25 * whole < compressed < 0.52 * whole, "with hashes and checksums"
    refused, _ = stored(tmp_path, 0.6, context_tolerance=1e-9)
    assert refused == pytest.approx(whole, rel=0.01)
