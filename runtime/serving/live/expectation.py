"""When requests get their first token: estimates of the scheduler, corrected by what came of earlier ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from ...engine.engine_status import RequestStatus
from ...engine.trace import TracedRequest

_LEAST_S: Final = 0.002
"""Work that is estimated shorter counts as this: one step of an engine."""
_OUTCOMES: Final = 20
"""Outcomes of each priority that estimates are corrected by."""
_IN_TIME: Final = 0.75
"""Share of these outcomes for which the corrected estimate would have been long enough."""
_TELLING: Final = 0.1
"""Share of its work that tells how long the rest of a request takes. Less may be an estimate that changed."""
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
    compared: bool
    """Whether the estimate is by what earlier requests, or its own work, have taken."""


class Expectation:
    """Expected times to the first token of one engine's requests.

    What has to be computed for a request and before it is known. It takes longer where decodes and more
    urgent requests come between, by what most of the last requests of the same priority kept to: a factor,
    or seconds where these are less. Where answers that hold memory must end first, waits do not grow with
    the work, and a factor that was learned from little work says nothing of more.

    Once its time has passed it is not known, nor is any behind it, until some of that work has been done:
    then the time that this took tells how long the rest takes, but no longer than as if it came now. Most of
    that time may have been a pause that is over.
    """

    def __init__(self) -> None:
        """Correct nothing yet."""
        self._outcomes = {each: deque[tuple[float, float]](maxlen=_OUTCOMES) for each in (True, False)}
        """How much longer than the estimated work requests have waited: by a factor, and by seconds."""
        self._waits: dict[str, _Wait] = {}
        self.uncompared: frozenset[str] = frozenset()
        """The requests whose time is not known because one was estimated, too short, before any of its
        priority had its first token."""
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
        latest = {True: (now, True), False: (now, True)}
        expected: dict[str, float | None] = {}
        uncompared = []
        for each in requests:
            work_s += each.prefill_left_s
            if each.first_token is not None:
                continue
            wait = self._waits.get(each.request_id)
            waits[each.request_id] = wait = (
                self._continued(each, wait, work_s, now) if wait else self._new(each, work_s, now)
            )
            latest[each.reactive] = max(latest[each.reactive], (wait.due, wait.compared), key=itemgetter(0))
            if each.reactive:
                latest[False] = max(latest[True], latest[False], key=itemgetter(0))
            due, compared = latest[each.reactive]
            expected[each.request_id] = None if due == _NEVER else due - now
            if due == _NEVER and not compared:
                uncompared.append(each.request_id)
        self._waits, self._looked, self.uncompared = waits, now, frozenset(uncompared)
        return expected

    def _learn(self, requests: Iterable[RequestStatus | TracedRequest]) -> None:
        for each in requests:
            if each.first_token is not None and (wait := self._waits.pop(each.request_id, None)):
                waited_s, work_s = each.first_token - wait.begun, max(_LEAST_S, wait.work_s)
                outcome = max(1.0, waited_s / work_s), max(0.0, waited_s - work_s)
                self._outcomes[each.reactive].append(outcome)

    def _corrected(self, work_s: float, *, reactive: bool) -> float:
        """Return the seconds that ``work_s`` of estimated work takes, as most of the last outcomes say."""
        work_s, outcomes = max(_LEAST_S, work_s), self._outcomes[reactive]
        if not outcomes:
            return work_s
        place = int(_IN_TIME * len(outcomes))
        factor = sorted(factor for factor, _ in outcomes)[place]
        extra_s = sorted(extra_s for _, extra_s in outcomes)[place]
        return min(factor * work_s, work_s + extra_s)

    def _new(self, request: RequestStatus, work_s: float, now: float) -> _Wait:
        # What has waited since before the first look had its estimate then, and may be past it.
        begun = now if self._looked is None else max(request.arrived, self._looked)
        since = request.arrived if self._looked is None else begun
        due = since + self._corrected(work_s, reactive=request.reactive)
        compared = bool(self._outcomes[request.reactive])
        return _Wait(begun, work_s, work_s, work_s, due if due > now else _NEVER, compared)

    def _continued(self, request: RequestStatus, wait: _Wait, work_s: float, now: float) -> _Wait:
        if work_s < wait.least_s:
            wait.least_s = work_s
            done_s = wait.work_s - work_s
            if done_s >= _TELLING * wait.work_s:
                pace = max(1.0, (now - wait.begun) / done_s)
                left_s = pace * max(_LEAST_S, work_s)
                if self._outcomes[request.reactive]:
                    left_s = min(left_s, self._corrected(work_s, reactive=request.reactive))
                wait.due = now + left_s
                wait.compared = True
        else:
            wait.due += max(0.0, work_s - wait.last_s)  # has come before it since
        wait.last_s = work_s
        if wait.due <= now:
            wait.due = _NEVER
        return wait
