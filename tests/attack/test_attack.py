"""Each part of the attack bench, on little work, finds nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentrt.bench.attack.main import run
from agentrt.bench.common.figures import draw
from agentrt.bench.common.parts import AttackPart
from agentrt.bench.common.report import BenchReport

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

NOTHING = ("server_errors_5xx", "untyped_errors", "broken_promises", "faults_logged", "others_failed")


def attacked(part: AttackPart) -> BenchReport:
    """The report of a part that has found nothing; waits are measured on an idle machine only."""
    report = run(quick=True, workloads=None, progress=lambda line: None, parts=[part])
    problems = [row for table in report.tables if table.title == "problems" for row in table.rows]
    assert {name: report.figures[name] for name in NOTHING} == dict.fromkeys(NOTHING, 0), problems
    return report


def test_random_requests_to_every_route_and_mutated_bodies_of_clients() -> None:
    report = attacked(AttackPart.REQUESTS)
    assert report.figures["tries"] == 300
    (answers,) = (table for table in report.tables if table.title == "answers to random requests")
    assert {status for _, status, _ in answers.rows} >= {200, 400, 401, 404}
    routes = {str(name) for name, _, _ in answers.rows}
    assert {"POST /v1/chat/completions", "DELETE /v1/contexts/{context_id}", "GET /metrics"} <= routes
    assert "mutated body of a client for /v1/responses" in routes


def test_requests_that_ask_for_much_work() -> None:
    assert attacked(AttackPart.COSTLY).figures["tries"] == 4


def test_many_connections_slow_clients_and_clients_that_disconnect() -> None:
    figures = attacked(AttackPart.CONNECTIONS).figures
    assert figures["tries"] == 200 + 2 * 10 + 10 + 10 + 30
    assert (figures["descriptors_leaked"], figures["blocks_leaked"]) == (0, 0)
    assert figures["longest_wait_beside_many_ms"] > 0


def test_processes_that_end_while_they_use_models() -> None:
    figures = attacked(AttackPart.EXITS).figures
    assert (figures["clean_exits"], figures["exits_tried"]) == (4, 4)
    assert not {"longest_freeze_ms", "descriptors_leaked"} & figures.keys(), "this part measures neither"


def test_sigterm_under_load() -> None:
    assert attacked(AttackPart.DRAIN).figures["drain_bound_kept"] == 1


def test_hostile_engines_behind_a_gateway() -> None:
    report = attacked(AttackPart.ENGINES)
    (engines,) = (table for table in report.tables if table.title == "hostile engines")
    statuses = {row[0]: row[2] for row in engines.rows}
    assert (statuses["ends in an event"], statuses["redirects"]) == (200, 307)
    assert {"sends drawn bytes, median wait", "sends drawn bytes, longest wait"} <= statuses.keys()
    assert report.figures["descriptors_leaked"] == 0


def test_processes_that_are_killed_leave_what_the_next_one_needs() -> None:
    figures = attacked(AttackPart.KILLS).figures
    assert figures["kills_survived"] == figures["kills"] == 4


def test_full_disks() -> None:
    assert attacked(AttackPart.DISK).figures["full_disks_tried"] == 3


def test_mixed_load_leaves_no_descriptor_and_no_block(tmp_path: Path) -> None:
    report = attacked(AttackPart.SOAK)
    assert (report.figures["descriptors_leaked"], report.figures["blocks_leaked"]) == (0, 0)
    assert "rss_growth_mb_per_hour" not in report.figures, "seconds say nothing about an hour"
    assert any(table.title == "soak" and len(table.rows) > 2 for table in report.tables)
    (drawn,) = draw(report, tmp_path)
    assert "resident MB" in drawn.read_text()
