"""The pattern figures count what was drafted before it was called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.speculation import patterns
from tests.bench.workload_folder import write_apibank


def visit(number: int) -> dict[str, Any]:
    return {
        "id": f"visit{number}",
        "steps": [
            {"type": "user", "text": f"Where is the parcel P{number}77?"},
            {
                "type": "tool",
                "tool": "QueryParcel",
                "arguments": {"parcel": f"P{number}77"},
                "result": "moving",
            },
            {"type": "tool", "tool": "AddNote", "arguments": {"parcel": f"P{number}77"}, "result": "ok"},
            {"type": "reply", "text": "It is moving."},
        ],
    }


def test_claims_precision_and_waste_add_up(tmp_path: Path) -> None:
    write_apibank(tmp_path, [visit(number) for number in range(20)])
    told: list[str] = []
    (result,) = patterns.measure(tmp_path, quick=False, progress=told.append)
    assert (result.workload, result.conversations, result.turns, result.calls) == ("apibank", 20, 60, 20)
    assert result.late_calls == result.late_claims == 10  # by then it has learned
    assert result.claims <= result.drafts
    figures = patterns.figures([result])
    assert figures["pattern_claim_rate_apibank"] == pytest.approx(result.claims / 20)
    assert figures["pattern_precision_apibank"] == pytest.approx(result.claims / result.drafts)
    assert figures["pattern_wasted_runs_apibank"] == result.drafts - result.claims
    assert len(patterns.table([result]).rows) == 1
    assert told == ["pattern drafts: apibank, 20 conversations"]


def test_a_quick_run_takes_the_beginning(tmp_path: Path) -> None:
    write_apibank(tmp_path, [visit(number) for number in range(40)])
    (result,) = patterns.measure(tmp_path, quick=True, progress=lambda line: None)
    assert result.conversations == 4
