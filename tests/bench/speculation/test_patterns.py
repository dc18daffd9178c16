"""The pattern figures count what was drafted before it was called, by a predictor that does not know it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.estimates import Estimate
from agentrt.bench.common.report import Table
from agentrt.bench.speculation import pattern_agents, patterns
from agentrt.bench.speculation.controlled import GENERATION
from agentrt.bench.speculation.patterns import TOOL, Replayed
from tests.bench.workload_folder import write_apibank


def visit(number: int) -> dict[str, Any]:
    return {
        "id": f"visit{number}",
        "steps": [
            {"type": "user", "text": f"Where is the parcel P{number}77?"},
            {
                "type": "tool",
                "tool": "QueryParcel",
                "arguments": {"parcel": f"P{number}77", "language": "en"},
                "result": "moving",
            },
            {"type": "tool", "tool": "AddNote", "arguments": {"parcel": f"P{number}77"}, "result": "ok"},
            {"type": "reply", "text": "It is moving."},
        ],
    }


def replayed(folder: Path, records: list[dict[str, Any]], *, quick: bool = False) -> list[Replayed]:
    write_apibank(folder, records)
    stores = folder / "stores"
    stores.mkdir()
    return patterns.replay(folder, stores, quick=quick, progress=lambda line: None)


def values(figures: dict[str, Estimate]) -> dict[str, float]:
    return {name: each.value for name, each in figures.items()}


def cell(table: Table, row: int, column: str) -> Any:
    return table.rows[row][table.columns.index(column)]


def test_claims_waste_and_time_add_up(tmp_path: Path) -> None:
    development, held_back = sets = replayed(tmp_path, [visit(number) for number in range(20)])
    assert [each.held_back for each in sets] == [False, True]
    assert len(development.conversations) + len(held_back.conversations) == 20
    lived = development.lived()
    claims, wasted = sum(one.claims for one in lived), sum(one.wasted for one in lived)
    plain_s, seconds = sum(one.plain_seconds for one in lived), sum(one.seconds for one in lived)
    assert plain_s == pytest.approx(len(lived) * (3 * GENERATION + 2 * TOOL))
    assert plain_s - seconds == pytest.approx(TOOL * claims)
    figures, table = patterns.figures_and_table(sets)
    found = values(figures)
    assert found["pattern_claim_rate_apibank"] == pytest.approx(claims / len(lived))
    assert found["pattern_precision_apibank"] == pytest.approx(claims / (claims + wasted))
    assert found["pattern_claim_rate_apibank_held_back"] == 1, "by then it has learned"
    assert 0 < found["pattern_claim_rate_apibank"] < 1, "and at first it had not"
    assert [row[:2] for row in table.rows] == [("apibank", "development"), ("apibank", "held back")]
    assert cell(table, 1, "time saved %").value == pytest.approx(100 * TOOL / (3 * GENERATION + 2 * TOOL))
    assert development.lived() == lived


def test_conversations_of_one_group_are_on_one_side(tmp_path: Path) -> None:
    records = [{**visit(number), "group": f"user{number % 7}"} for number in range(28)]
    development, held_back = replayed(tmp_path, records)
    groups = [{each.group for each in part.conversations} for part in (development, held_back)]
    assert not groups[0] & groups[1]
    assert groups[0] | groups[1] == {f"user{number}" for number in range(7)}


def test_a_quick_run_takes_the_beginning(tmp_path: Path) -> None:
    sets = replayed(tmp_path, [visit(number) for number in range(40)], quick=True)
    assert sum(len(each.conversations) for each in sets) == 4


def test_sweeps_are_of_what_was_held_back(tmp_path: Path) -> None:
    sets = replayed(tmp_path, [visit(number) for number in range(20)])
    by_latency, by_drafts = pattern_agents.sweep_tables(sets, (0.0, TOOL))
    assert {row[0] for row in by_latency.rows} == {"patterns, apibank held back"}
    nothing, something = (cell(by_latency, row, "saved %").value for row in (0, 1))
    assert nothing == pytest.approx(0)
    assert something == cell(by_drafts, 0, "saved %").value > 0


@pytest.mark.usefixtures("prediction_is_free")
def test_agents_at_once_begin_with_what_was_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_agents, "_AGENTS", {2: 4, 1000: 1000})
    monkeypatch.setattr(pattern_agents, "_SCALE", 0.1)
    sets = replayed(tmp_path, [visit(number) for number in range(20)])
    figures = pattern_agents.throughput_figures(sets, tmp_path)
    assert figures.keys() == {"pattern_throughput_m2_ratio"}, "of too few conversations there is no figure"
    assert figures["pattern_throughput_m2_ratio"].samples == 4
    pairs = [pattern_agents.Pair(3, 6.0, 3.0), pattern_agents.Pair(3, 3.0, 3.0)]
    assert pattern_agents.throughput_ratio(pairs) == pytest.approx((1 + 1) / (0.5 + 1))


def mixed_requests() -> Iterator[dict[str, Any]]:
    """Requests of a new user, the same eight twice: orders, the weather, and two orders to be cancelled."""
    for number in range(16):
        customer = ("ACME", "Initech", "", "Hooli", "", "Umbrella", "Wayne", "Stark")[number % 8]
        cities = {2: ("Oslo", "Rome"), 4: ("Paris", "Kyoto")}.get(number % 8, ())
        order = f"order-{len(customer)}{sum(map(ord, customer))}"
        cancels = customer in ("Umbrella", "Stark")
        asked = "Please cancel the order of" if cancels else "Where is the order of"
        text = f"What is the weather in {' and '.join(cities)}?" if cities else f"{asked} {customer}?"
        calls = [("GetWeather", {"city": city}, json.dumps({"city": city, "temp": 12})) for city in cities]
        if not cities:
            calls = [
                ("FindOrder", {"customer": customer}, order),
                ("GetOrder", {"number": order}, f"{order}: three chairs"),
            ]
        if cancels:
            calls.append(("CancelOrder", {"number": order}, f"{order} cancelled"))
            calls.append(("GetOrder", {"number": order}, f"{order}: cancelled"))
        steps = [{"type": "tool", "tool": tool, "arguments": a, "result": r} for tool, a, r in calls]
        yield {
            "id": f"request{number}",
            "steps": [{"type": "user", "text": text}, *steps, {"type": "reply", "text": "Done."}],
        }


def test_the_defaults_save_a_new_user_a_fifth_of_the_time_and_waste_at_most_a_fifth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "halves", lambda conversations: (conversations, []))
    (result,) = replayed(tmp_path, list(mixed_requests()))
    lived = result.lived()
    assert patterns.saved_pct(lived) >= 20
    assert patterns.precision(lived).value >= 0.8  # type: ignore[union-attr]
