"""The wire bench on little work."""

from __future__ import annotations

import pytest

from agentrt.bench.wire import main as wire

pytestmark = pytest.mark.bench


def test_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    amounts = wire.Amounts(rounds=1, compilations=0, queued=24, jobs=4, kills=1, cancels=2, prompt_words=100)
    monkeypatch.setattr(wire, "AMOUNTS", {True: amounts})
    report = wire.run(quick=True, workloads=None, progress=lambda line: None)
    assert report.figures.keys() == {
        *("second_turn_computed_pct", "second_turn_computed_pct_after_restart"),
        *("second_response_computed_pct_after_restart", "reactive_ttft_ratio_with_24_jobs", "cancel_ms_p50"),
        *("places_kept_share", "jobs_lost", "streams_cut"),
        "jobs_other_text_share",
    }
    assert report.figures["jobs_lost"].value == report.figures["streams_cut"].value == 0
