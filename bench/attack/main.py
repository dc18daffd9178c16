"""The attack bench: what hostile clients, engines, files and faults do to the service of others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..common.machine import describe_machine
from ..common.parts import AttackPart
from ..common.report import BenchReport, Table
from .costly import COLUMNS, attack_by_costly_requests
from .outcomes import Outcomes
from .requests import attack_by_requests

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is tried."""

    requests: int
    """Random requests and mutations."""


FULL: Final = Size(requests=20_000)
QUICK: Final = Size(requests=300)
_ANSWERS: Final = "answers to random requests"
SIZES: dict[bool, Size] = {False: FULL, True: QUICK}

_METHOD: Final = (
    "Servers are processes of their own, with the demonstration model; requests are bytes on sockets. "
    "Meanwhile another process polls /health every 5 ms and a chat of one token every 20 ms as another app: "
    "longest_freeze_ms is its longest wait during one request of the attacker. A request during which "
    "it waited more than 100 ms is sent twice more, and the shortest of the three waits counts."
)


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Progress,
    parts: Collection[AttackPart] = tuple(AttackPart),
) -> BenchReport:
    """Try ``parts`` of the attacks. ``workloads`` is not used.

    Raises:
        BenchProcessError: a server does not start.
    """
    machine, size = describe_machine(), SIZES[quick]
    outcomes = Outcomes()
    figures: dict[str, float] = {}
    tables: list[Table] = []
    if AttackPart.REQUESTS in parts:
        attack_by_requests(size.requests, outcomes, progress)
        answers = tuple(
            (name, status, number) for (name, status), number in sorted(outcomes.statuses.items())
        )
        tables.append(Table(title=_ANSWERS, columns=("request", "status", "answers"), rows=answers))
    if AttackPart.COSTLY in parts:
        rows = attack_by_costly_requests(quick, outcomes, progress)
        tables.append(Table(title="costly requests", columns=COLUMNS, rows=tuple(rows)))
    left_out = [part for part in AttackPart if part not in parts]
    return BenchReport(
        bench="attack",
        machine=machine,
        figures={**_counts(outcomes), **figures},
        tables=(*tables, Table(title="problems", columns=("try", "problem"), rows=tuple(outcomes.problems))),
        method=_METHOD + (f" Left out: {', '.join(left_out)}." if left_out else ""),
    )


def _counts(outcomes: Outcomes) -> dict[str, float]:
    return {
        "tries": outcomes.tries,
        "server_errors_5xx": outcomes.server_errors,
        "untyped_errors": outcomes.untyped_errors,
        "faults_logged": outcomes.faults,
        "others_failed": outcomes.others_failed,
        "longest_freeze_ms": round(1000 * outcomes.longest_freeze_s, 1),
    }
