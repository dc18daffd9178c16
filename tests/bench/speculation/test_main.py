"""The parts of the speculation bench are measured alone."""

from __future__ import annotations

import pytest

from agentrt.bench.common.parts import SpeculationPart
from agentrt.bench.speculation.main import run

pytestmark = pytest.mark.bench


def test_a_part_gives_its_own_figures_only() -> None:
    parts = [SpeculationPart.OVERHEAD]
    report = run(quick=True, workloads=None, progress=lambda line: None, parts=parts)
    assert "sdk_overhead_claimed_turn_ms_p50" in report.figures
    assert not {"model_attainment", "transcripts_equal"} & report.figures.keys()
