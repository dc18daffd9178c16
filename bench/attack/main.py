"""The attack bench: what hostile clients, engines, files and faults do to the service of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..common.machine import describe_machine
from ..common.parts import AttackPart
from ..common.report import BenchReport, Cell, Table
from . import connections, costly, drain, engines, soak
from .connections import ConnectionsSize
from .exits import attack_by_exits
from .full_disk import attack_by_full_disk
from .kills import KillsSize, attack_by_kills
from .leaks import growth_per_hour
from .outcomes import Outcomes
from .requests import attack_by_requests

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is tried."""

    quick: bool
    requests: int
    """Random requests and mutations."""
    connections: ConnectionsSize
    kills: KillsSize
    exits: int
    soak_s: float


_CONNECTIONS: Final = ConnectionsSize(crowd=1000, slow=40, hold_s=75, let_go=True, vanishing=500)
_KILLS: Final = KillsSize(streams=13, conversions=12, profiles=12, store_writes=13)
FULL: Final = Size(False, 20_000, _CONNECTIONS, _KILLS, exits=200, soak_s=3600)
_FEW_CONNECTIONS: Final = ConnectionsSize(crowd=200, slow=10, hold_s=1, let_go=False, vanishing=30)
_FEW_KILLS: Final = KillsSize(streams=1, conversions=1, profiles=0, store_writes=2)
QUICK: Final = Size(True, 300, _FEW_CONNECTIONS, _FEW_KILLS, exits=4, soak_s=5)
SIZES: dict[bool, Size] = {False: FULL, True: QUICK}

_METHOD: Final = (
    "Servers are processes of their own, with the demonstration model; requests are bytes on sockets. "
    "Meanwhile another process polls /health every 5 ms and a chat of one token every 20 ms as another app: "
    "longest_freeze_ms is its longest wait during one request of the attacker. A request during which "
    "it waited more than 100 ms is sent twice more, and the shortest of the three waits counts."
)


@dataclass(slots=True)
class _Run:
    """What all parts add to."""

    size: Size
    progress: Progress
    outcomes: Outcomes = field(default_factory=Outcomes)
    figures: dict[str, float] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)

    def add_table(self, title: str, columns: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> None:
        self.tables.append(Table(title=title, columns=columns, rows=tuple(rows)))


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
    machine, current = describe_machine(), _Run(SIZES[quick], progress)
    for part, attack in _ATTACKS.items():
        if part in parts:
            attack(current)
    current.add_table("problems", ("try", "problem"), current.outcomes.problems)
    left_out = [part for part in AttackPart if part not in parts]
    return BenchReport(
        bench="attack",
        machine=machine,
        figures={**_counts(current.outcomes), **current.figures},
        tables=tuple(current.tables),
        method=_METHOD + (f" Left out: {', '.join(left_out)}." if left_out else ""),
    )


def _requests(run: _Run) -> None:
    attack_by_requests(run.size.requests, run.outcomes, run.progress)
    answers = [(name, status, number) for (name, status), number in sorted(run.outcomes.statuses.items())]
    run.add_table("answers to random requests", ("request", "status", "answers"), answers)


def _costly(run: _Run) -> None:
    rows = costly.attack_by_costly_requests(run.size.quick, run.outcomes, run.progress)
    run.add_table("costly requests", costly.COLUMNS, rows)


def _connections(run: _Run) -> None:
    rows = connections.attack_by_connections(run.size.connections, run.outcomes, run.progress)
    run.figures["longest_wait_beside_many_ms"] = max(wait_ms for _, wait_ms, _ in rows)
    run.add_table("clients that hold connections", connections.COLUMNS, rows)


def _engines(run: _Run) -> None:
    rows = engines.attack_by_engines(run.size.quick, run.outcomes, run.progress)
    run.add_table("hostile engines", engines.COLUMNS, rows)


def _kills(run: _Run) -> None:
    killed, survived = attack_by_kills(run.size.kills, run.outcomes, run.progress)
    run.figures |= {"kills": killed, "kills_survived": survived}


def _disk(run: _Run) -> None:
    run.figures["full_disks_tried"] = attack_by_full_disk(run.outcomes, run.progress)


def _exits(run: _Run) -> None:
    run.figures["clean_exits"] = attack_by_exits(run.size.exits, run.outcomes, run.progress)
    run.figures["exits_tried"] = run.size.exits


def _drain(run: _Run) -> None:
    rows = drain.attack_by_sigterm(run.size.quick, run.outcomes, run.progress)
    run.figures["drain_bound_kept"] = drain.is_kept(rows)
    run.add_table("SIGTERM", drain.COLUMNS, rows)


def _soak(run: _Run) -> None:
    samples = soak.soak(run.size.soak_s, run.outcomes, run.progress)
    if not run.size.quick:  # seconds say nothing about an hour
        run.figures["rss_growth_mb_per_hour"] = round(growth_per_hour(samples), 2)
    run.add_table("soak", soak.COLUMNS, soak.rows_of(samples))


_ATTACKS: Final[Mapping[AttackPart, Callable[[_Run], None]]] = {
    AttackPart.REQUESTS: _requests,
    AttackPart.COSTLY: _costly,
    AttackPart.CONNECTIONS: _connections,
    AttackPart.ENGINES: _engines,
    AttackPart.KILLS: _kills,
    AttackPart.DISK: _disk,
    AttackPart.EXITS: _exits,
    AttackPart.DRAIN: _drain,
    AttackPart.SOAK: _soak,
}


def _counts(outcomes: Outcomes) -> dict[str, float]:
    """Return the figures of all parts, without those that no part has measured."""
    counts: dict[str, float] = {
        "tries": outcomes.tries,
        "server_errors_5xx": outcomes.server_errors,
        "untyped_errors": outcomes.untyped_errors,
        "broken_promises": outcomes.broken_promises,
        "faults_logged": outcomes.faults,
        "others_failed": outcomes.others_failed,
    }
    if outcomes.longest_freeze_s is not None:
        counts["longest_freeze_ms"] = round(1000 * outcomes.longest_freeze_s, 1)
    return counts | {f"{kind}_leaked": number for kind, number in outcomes.leaked.items()}
