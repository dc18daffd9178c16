"""The pattern figures count what was drafted before it was called."""

from __future__ import annotations

import json
from collections.abc import Iterator
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


def test_claims_waste_and_time_add_up(tmp_path: Path) -> None:
    write_apibank(tmp_path, [visit(number) for number in range(20)])
    told: list[str] = []
    (result,) = patterns.measure(tmp_path, quick=False, progress=told.append)
    assert (result.workload, result.conversations, result.turns) == ("apibank", 20, 60)
    total, late = result.total, result.late
    assert (total.calls, late.calls, late.claims) == (20, 10, 10)  # by then it has learned
    assert total.plain_seconds == pytest.approx(60 * 0.8 + 40 * 0.5)
    assert total.plain_seconds - total.seconds == pytest.approx(0.5 * total.claims)
    figures = patterns.figures([result])
    assert figures["pattern_claim_rate_apibank"] == pytest.approx(total.claims / 20)
    assert figures["pattern_precision_apibank"] == pytest.approx(total.claims / (total.claims + total.wasted))
    assert figures["pattern_wasted_runs_apibank"] == total.wasted
    assert figures["pattern_time_saved_pct_apibank"] == pytest.approx(50 * total.claims / total.plain_seconds)
    assert len(patterns.table([result]).rows) == 1
    assert told == ["pattern drafts: apibank, 20 conversations"]
    again = patterns.measure(tmp_path, quick=False, progress=told.append)
    assert (again[0].total, again[0].late) == (total, late)


def test_a_quick_run_takes_the_beginning(tmp_path: Path) -> None:
    write_apibank(tmp_path, [visit(number) for number in range(40)])
    (result,) = patterns.measure(tmp_path, quick=True, progress=lambda line: None)
    assert result.conversations == 4


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


def test_the_defaults_save_a_new_user_a_fifth_of_the_time_and_waste_at_most_a_fifth(tmp_path: Path) -> None:
    write_apibank(tmp_path, list(mixed_requests()))
    (result,) = patterns.measure(tmp_path, quick=False, progress=lambda line: None)
    assert result.total.saved_share >= 0.2
    assert result.total.wasted_share <= 0.2
