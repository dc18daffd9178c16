"""Hit rates of drafts by samples a turn: how they are counted, and of the embedded models."""

from __future__ import annotations

import pytest

from agentrt.bench.common.estimates import share
from agentrt.bench.common.parts import SpeculationPart
from agentrt.bench.speculation.hit_rates import Drafted, MainTurn, hit_rate, hit_rate_gain
from agentrt.bench.speculation.main import run
from agentrt.drafts import DraftCost, DraftRequest

pytestmark = pytest.mark.bench


def drafted(made: str, drafts: str) -> Drafted:
    """Return what was drafted in a turn; a letter is a call."""
    turn = MainTurn(DraftRequest([], []), frozenset(made), (1, 1), 1.0)
    return Drafted(turn, frozenset(drafts), DraftCost(), 1.0)


def test_a_hit_is_a_call_of_the_main_model_that_a_sample_makes() -> None:
    one = [drafted("a", "a"), drafted("b", "c"), drafted("cd", "ax")]
    more = [drafted("a", "ab"), drafted("b", "cb"), drafted("cd", "axc")]
    assert hit_rate(one) == share(1, 4)
    assert hit_rate(more) == share(3, 4)
    assert hit_rate_gain(one, more).value == 0.5
    assert hit_rate_gain(one, one).value == 0.0


@pytest.mark.real_model
def test_hit_rates_of_the_embedded_models() -> None:
    report = run(
        quick=True,
        workloads=None,
        progress=lambda line: None,
        model="nano",
        drafts=["nano-draft"],
        parts=[SpeculationPart.SAMPLES],
    )
    figures = report.figures
    assert figures["requests_with_calls"].value == 6.0
    assert figures["hit_rate_1_sample"].value > 0.5
    assert figures["hit_rate_gain"].value >= 0.0, "the first of several samples is the greedy one"
    assert all(each.has_interval for each in figures.values())
    (table,) = report.tables
    one, three = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (one["samples"], three["samples"]) == (1, 3)
    assert one["hit rate"] == figures["hit_rate_1_sample"]
    assert three["hit rate"] == figures["hit_rate_3_samples"]
    written = "written tokens a turn"
    assert three[written].value > one[written].value  # type: ignore[union-attr]
    assert three["added cost %"] > one["added cost %"]  # type: ignore[operator]
