from __future__ import annotations

import pytest

from agentrt.bench import engine
from agentrt.bench._engine_sides import EngineSide, Settings
from agentrt.errors import ModelNotFoundError


def test_figures_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_QUICK", engine._Size(repetitions=2, decode_tokens=8, batch_tokens=4))
    said: list[str] = []
    report = engine.run(quick=True, workloads=None, progress=said.append)
    assert report.bench == "engine"
    assert report.figures["greedy_equal_prompts"] == 50
    assert report.figures["decode_ratio_vs_openvino_genai"] > 0
    assert report.figures["prefill_ratio_vs_openvino_genai"] > 0
    (table,) = report.tables
    assert len(table.rows) == 2 * (len(engine._PREFILL_WORDS) + 2)
    assert said, "a run that takes long shows its progress"


def test_the_ratio_compares_neighbours_in_time() -> None:
    # The machine was twice as slow in the second repetition, for both.
    rates = engine._Rates("decode", agentrt=[200.0, 100.0, 220.0], openvino_genai=[100.0, 50.0, 110.0])
    assert rates.ratio == 2.0


def test_a_side_that_fails_raises_here() -> None:
    with pytest.raises(ModelNotFoundError, match="no model '/no/such/model'"):
        EngineSide("agentrt", "/no/such/model", Settings(1, None, None))
