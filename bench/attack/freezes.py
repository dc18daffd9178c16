"""How long another client waits while one request is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .other_client import OtherClient, Wait
from .outcomes import Outcomes
from .server_process import ServerProcess
from .wire import Answer, Request, exchange

LIMIT_S: Final = 0.1
"""The longest wait of another client that is no freeze."""
_TIMEOUT_S: Final = 120
_MEASUREMENTS: Final = 3
"""Of what another client waited for longer: the shortest counts, since other programs may have delayed it."""


def longest_wait(other: OtherClient, act: Callable[[], object], outcomes: Outcomes, name: str) -> float:
    """Return the longest wait of another client while ``act`` runs, in seconds."""
    other.begin()
    try:
        act()
    finally:
        waits = other.end()
    count_failures(waits, outcomes, name)
    return max((wait.seconds for wait in waits), default=0.0)


def count_failures(waits: Sequence[Wait], outcomes: Outcomes, name: str) -> None:
    """Count the requests of another client that were not answered 200."""
    failed = [wait for wait in waits if wait.status != 200]
    outcomes.others_failed += len(failed)
    if failed:
        wait = failed[0]
        outcomes.note(name, f"{len(failed)} requests of another client failed, {wait.route} {wait.status}")


def shortest_wait(other: OtherClient, act: Callable[[], object], outcomes: Outcomes, name: str) -> float:
    """Return the longest wait during ``act``, which is repeated if that is too long: the shortest of all."""
    shortest = longest_wait(other, act, outcomes, name)
    for _ in range(_MEASUREMENTS - 1):
        if shortest <= LIMIT_S:
            break
        shortest = min(shortest, longest_wait(other, act, outcomes, name))
    return shortest


def measure_request(
    server: ServerProcess, other: OtherClient, request: Request, outcomes: Outcomes
) -> tuple[Answer, float]:
    """Send a request and return its first answer, and how long another client waited meanwhile."""
    answers: list[Answer] = []

    def act() -> None:
        answers.append(exchange(server.port, request, server.tokens["attacker"], _TIMEOUT_S))

    seconds = shortest_wait(other, act, outcomes, request.name)
    return answers[0], seconds
