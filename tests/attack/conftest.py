"""The campaign: each test tries a part of it on little work, or with ``--full`` in full (``make attack``).

In full it ends with a table of problems, and writes all figures and tables into the file of ``--json``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from agentrt.bench.common.estimates import exact
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.report import BenchReport
from tests.attack.campaign import COUNTS, Campaign

_METHOD = (
    "Servers are processes of their own, with the demonstration model; requests are bytes on sockets. "
    "Meanwhile another process polls /health every 5 ms and a chat of one token every 20 ms as another app: "
    "longest_freeze_ms is its longest wait during one request of the attacker. A request during which "
    "it waited more than 100 ms is sent twice more, and the shortest of the three waits counts."
)
_campaign = pytest.StashKey[Campaign]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="attack in full: 40 minutes on an idle machine")
    parser.addoption("--json", type=Path, help="where the report of a campaign in full is written")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("bench")
            item.add_marker(pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"))


@pytest.fixture
def campaign(pytestconfig: pytest.Config) -> Iterator[Campaign]:
    """What all tests add to; a test fails if anything went wrong in it."""
    full = pytestconfig.getoption("--full", default=False)
    campaign = pytestconfig.stash.setdefault(_campaign, Campaign(full))
    before = campaign.counts.copy()
    campaign.statuses.clear()
    yield campaign
    assert not {name for name in COUNTS[1:] if campaign.counts[name] > before[name]}, campaign.problems


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    campaign = config.stash.get(_campaign, None)
    if campaign is None or not campaign.full:
        return
    campaign.add_table("problems", ("try", "problem"), campaign.problems)
    counted = {**dict.fromkeys(COUNTS, 0), **campaign.counts, **campaign.figures}
    report = BenchReport(
        bench="attack",
        machine=describe_machine(),
        figures={name: exact(value) for name, value in counted.items()} | campaign.estimates,
        tables=tuple(campaign.tables),
        method=_METHOD,
    )
    if file := config.getoption("--json"):
        report.write(file)
    terminalreporter.section("the campaign")
    for name, found in report.figures.items():
        terminalreporter.write_line(f"{name:30} {found.value:,.10g}")
    terminalreporter.section("problems")
    for name, problem in campaign.problems:
        terminalreporter.write_line(f"{name}: {problem}")
