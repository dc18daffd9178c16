"""Claims and tool runs of one agent in every framework, and guards, as the report of a bench.

``python -m tests.adapters.frameworks_report --json FILE`` in a clone; what is not installed has an empty row.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from agentrt.bench.common.estimates import exact, share
from agentrt.bench.common.machine import describe_machine
from agentrt.bench.common.report import BenchReport, Cell, Table
from agentrt.testing import free_prediction
from tests.adapters import agent_frameworks
from tests.adapters.adapter_agents import adapter_agents
from tests.adapters.agent_world import TURNS, Outcome, Run
from tests.adapters.langchain.guarded_agents import guard_bypasses

_CALLS = TURNS - 1
_COLUMNS = ("framework", "agents", "calls", "tool runs", "double runs", "claims", "results")
_METHOD = (
    f"One agent in every framework, with {_CALLS} calls of a tool that counts its runs, and a predictor that "
    "is always right. frameworks_tried counts the agents whose framework is installed, frameworks_claiming "
    "those that claimed every call and gave its result to the model; double_runs is the sum of the runs "
    "beyond one for each call, claims_of_right_drafts the share of right drafts that were claimed. "
    "guard_bypasses counts, over 21 kinds of guards, runs of a tool whose only call was rejected and had "
    "been drafted long before, in virtual time."
)


def measure() -> BenchReport:
    """Run all agents and guards."""
    with free_prediction():
        outcomes = {
            name: run() if _is_installed(module) else None for name, (module, run) in _agents().items()
        }
    tried = [each for each in outcomes.values() if each is not None]
    claims = sum(each.report.total.claims for each in tried)
    right = sum(each.correct for outcome in tried for each in outcome.report.predictors.values())
    return BenchReport(
        bench="frameworks",
        machine=describe_machine(),
        figures={
            "frameworks_tried": exact(len(tried)),
            "frameworks_claiming": exact(sum(map(_are_equal, tried))),
            "double_runs": exact(sum(each.double_runs for each in tried)),
            "claims_of_right_drafts": share(claims, right),
            "guard_bypasses": exact(sum(guard_bypasses().values())),
        },
        tables=(Table(title="tool runs by framework", columns=_COLUMNS, rows=_rows(outcomes)),),
        method=_METHOD,
    )


def _agents() -> dict[str, tuple[str, Run]]:
    return {
        **{name: ("agentrt", run) for name, run in agent_frameworks.own_agents().items()},
        **agent_frameworks.framework_agents(),
        **adapter_agents(),
    }


def _is_installed(module: str) -> bool:
    return find_spec(module.partition(".")[0]) is not None


def _rows(outcomes: Mapping[str, Outcome | None]) -> tuple[tuple[Cell, ...], ...]:
    """Return a row for each framework: the sums over its agents."""
    rows: list[tuple[Cell, ...]] = []
    for framework, names in itertools.groupby(sorted(outcomes), lambda name: name.partition(",")[0]):
        found = [each for name in names if (each := outcomes[name]) is not None]
        if found:
            runs = sum(len(each.runs) for each in found)
            double_runs = sum(each.double_runs for each in found)
            claims = sum(each.report.total.claims for each in found)
            equal = "equal" if all(map(_are_equal, found)) else "differ"
            rows.append((framework, len(found), _CALLS * len(found), runs, double_runs, claims, equal))
        else:
            rows.append((f"{framework} (not installed)", *[None] * (len(_COLUMNS) - 1)))
    return tuple(rows)


def _are_equal(outcome: Outcome) -> bool:
    """Return whether each call was claimed and the model got the results that it gets without agentrt."""
    expected = [f"found {number}" for number in range(_CALLS)]
    return outcome.report.total.claims == _CALLS and list(outcome.results) == expected


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.adapters.frameworks_report")
    parser.add_argument("--json", type=Path, required=True, help="where the report is written")
    measure().write(parser.parse_args().json)
