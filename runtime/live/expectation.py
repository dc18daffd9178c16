"""When requests get their first token: estimates of the scheduler, corrected by what came of earlier ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..engine.request_status import RequestStatus
from ..engine.trace import TracedRequest

_LEAST_S: Final = 0.002
"""Work that is estimated shorter counts as this: one step of an engine."""
_OUTCOMES: Final = 20
"""Outcomes of each priority that estimates are corrected by."""
_IN_TIME: Final = 0.75
"""Share of these outcomes for which the corrected estimate would have been long enough."""
_NEVER: Final = float("inf")


@dataclass(slots=True)
class _Wait:
    """What is known of one request without a first token. Times are on the platform's clock."""

    begun: float
    work_s: float
    """Estimated work until the first token at that time: its own, and that before it."""
    least_s: float
    """The least that it has been since."""
    last_s: float
    due: float
    """When the first token is expected. :data:`_NEVER` if that time has passed."""


class Expectation:
    """Expected times to the first token of one engine's requests.

    What has to be computed for a request and before it is known. It takes longer where decodes and more
    urgent requests come between, by a factor that most of the last requests of the same priority kept to.
    Once its time has passed it is not known, nor is any behind it, until some of that work has been done:
    then the time that this took tells how long the rest takes.
    """

    def __init__(self) -> None:
        """Correct nothing yet."""
        self._outcomes: dict[bool, deque[float]] = {
            reactive: deque(maxlen=_OUTCOMES) for reactive in (True, False)
        }
        self._waits: dict[str, _Wait] = {}
        self._looked: float | None = None

    def seconds(
        self, requests: Sequence[RequestStatus], now: float, ended: Iterable[TracedRequest] = ()
    ) -> dict[str, float | None]:
        """Return the seconds until the first token, by request, of those that have none; None: not known.

        ``requests`` are those that have not ended, in serving order, ``ended`` those that have since the last
        call, ``now`` is on the platform's clock.
        """
        self._learn([*ended, *requests])
        work_s, waits = 0.0, {}
        latest = {True: now, False: now}
        expected: dict[str, float | None] = {}
        for each in requests:
            work_s += each.prefill_left_s
            if each.first_token is not None:
                continue
            wait = self._waits.get(each.request_id)
            waits[each.request_id] = wait = (
                self._continued(wait, work_s, now) if wait else self._new(each, work_s, now)
            )
            latest[each.reactive] = max(latest[each.reactive], wait.due)
            if each.reactive:
                latest[False] = max(latest.values())
            due = latest[each.reactive]
            expected[each.request_id] = None if due == _NEVER else due - now
        self._waits, self._looked = waits, now
        return expected

    def _learn(self, requests: Iterable[RequestStatus | TracedRequest]) -> None:
        for each in requests:
            if each.first_token is not None and (wait := self._waits.pop(each.request_id, None)):
                factor = (each.first_token - wait.begun) / max(_LEAST_S, wait.work_s)
                self._outcomes[each.reactive].append(max(1.0, factor))

    def _new(self, request: RequestStatus, work_s: float, now: float) -> _Wait:
        # What has waited since before the first look had its estimate then, and may be past it.
        begun = now if self._looked is None else max(request.arrived, self._looked)
        outcomes = sorted(self._outcomes[request.reactive]) or [1.0]
        factor = outcomes[int(_IN_TIME * len(outcomes))]
        since = request.arrived if self._looked is None else begun
        due = since + factor * max(_LEAST_S, work_s)
        return _Wait(begun, work_s, work_s, work_s, due if due > now else _NEVER)

    def _continued(self, wait: _Wait, work_s: float, now: float) -> _Wait:
        if work_s < wait.least_s:
            wait.least_s = work_s
            pace = max(1.0, (now - wait.begun) / (wait.work_s - work_s))
            wait.due = now + pace * max(_LEAST_S, work_s)
        else:
            wait.due += max(0.0, work_s - wait.last_s)  # has come before it since
        wait.last_s = work_s
        if wait.due <= now:
            wait.due = _NEVER
        return wait
