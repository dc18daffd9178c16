"""The queue of background jobs: which runs next, when they pause, and when each will be done."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from agentrt.errors import JobQuotaError, RuntimeClosedError

from .conditions import Obstacle
from .config import BackgroundConfig
from .job import Event, Job, JobStatus
from .job_table import JobTable

SAVE_S: Final = 0.5
"""Seconds between two records of a running job: what a process that is killed must compute again, and how
late the events of its stream are where jobs are stored."""
LOOK_S: Final = 0.25
"""Seconds between two looks at the machine while there are jobs."""
DAY_S: Final = 86_400.0
_DURATIONS: Final = 50
"""Jobs whose durations are known that estimates are made of."""
_ENDED: Final = "the service of the background job has ended before the job. "
_GOES_ON: Final = (
    "It is stored: wait for it again with get(id) of the next BackgroundService, or at a server."
)
_IS_LOST: Final = (
    "It is not stored: submit it again, and await its result within the block. Open the runtime with "
    "context_folder to keep jobs."
)

_log: Final = logging.getLogger(__name__)

Outcome: TypeAlias = tuple[JobStatus, Mapping[str, Any]]
"""What a job has ended with: completed, incomplete or failed, and its result."""
Run: TypeAlias = Callable[[Job], Coroutine[Any, Any, Outcome]]
"""Runs a job, from where :attr:`Job.text` ends. It is cancelled where the job pauses."""
End: TypeAlias = Callable[[Job, JobStatus], tuple[Event, Mapping[str, Any]]]
"""Returns the last event, and the result, of a job that ends without one of its run: cancelled or failed."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job is in the queue."""

    position: int
    """How many jobs begin before it."""
    position_at_most: int
    """How many may, if all other apps send more."""
    done_in_s: tuple[float, float] | None
    """Seconds until it is done, at the earliest and at the latest, where jobs take as long as the last ones;
    None if that is not known, or jobs wait for the machine."""


class _Duration(NamedTuple):
    """How long a job has run, and how many ran then on average, itself included.

    Several at once take each as long as alone, if a batch costs what one costs, or in proportion longer.
    """

    run_s: float
    at_once: float

    @property
    def shortest_s(self) -> float:
        """What such a job takes at least, however few run."""
        return self.run_s / self.at_once

    def longest_s(self, concurrent: int) -> float:
        """What such a job takes at most where at most ``concurrent`` run."""
        return self.run_s * max(1.0, concurrent / self.at_once)


@dataclass(frozen=True, slots=True)
class _Running:
    run: asyncio.Task[Outcome]
    whole: asyncio.Task[None]
    """Ends once the job is stored as it then is."""


class JobQueue:
    """Runs jobs, several at once, in the order in which they came, where apps take turns. For one event loop.

    Jobs pause while ``obstacle`` returns one, and when the queue ends. Then they go on where they were: their
    answer so far is kept, and a process that was killed meanwhile loses :data:`SAVE_S` of it.
    """

    def __init__(
        self,
        table: JobTable,
        run: Run,
        end: End,
        config: BackgroundConfig,
        obstacle: Callable[[], Obstacle | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``run`` runs a job, ``end`` says what becomes of one that has not run to its end.

        ``clock`` returns Unix time.
        """
        self.table = table
        self.config = config
        self.obstacle: Obstacle | None = None
        """Why no job runs now, if there is a reason."""
        self.run_s: defaultdict[str, float] = defaultdict(float)
        """Seconds for which jobs of each app have run in this process."""
        self.on_begin: Callable[[float], None] | None = None
        """Called with the seconds that a job has waited when it begins to run first."""
        self._run = run
        self._end_of = end
        self._look = obstacle
        self._clock = clock
        self._used: defaultdict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
        """When each job of an app has run last, and for how many seconds, by id: deleting it returns none."""
        self._tasks: dict[Job, _Running] = {}
        self._cancelled: set[Job] = set()
        self._begun: Counter[str] = Counter()
        """How many jobs of each app have begun, so that the one with the fewest is the next."""
        self._durations: deque[_Duration] = deque(maxlen=_DURATIONS)
        self._running_s, self._counted_at = 0.0, clock()
        self._apps: Collection[str] = ()
        self._unended = asyncio.Event()
        self._stopping = True

    @asynccontextmanager
    async def running(self, apps: Collection[str]) -> AsyncIterator[None]:
        """Run jobs within the block, first those of ``apps`` that are stored.

        At its end jobs pause; they go on when another queue has the same stores.

        Raises:
            ConfigurationError: another queue of this process has them now.
            ContextStoreError: they cannot be read.
        """
        with self.table.owned():
            async with self._run_all(apps):
                yield

    @asynccontextmanager
    async def _run_all(self, apps: Collection[str]) -> AsyncIterator[None]:
        self._apps = apps
        await self.table.load(apps)
        for job in self.table.all():
            self._used[job.app][job.id] = (job.ended or self._clock(), job.run_s)
            job.paused_by = None
            self._note_duration(job)
        self._stopping = False
        watching = asyncio.create_task(self._watch())
        self._start()
        try:
            yield
        finally:
            self._stopping = True
            watching.cancel()
            await asyncio.wait([watching])
            await self._pause()
            await self.table.settle()
            for job in self.table.all():
                job.pause(RuntimeClosedError(_ENDED + (_GOES_ON if self.table.stores(job) else _IS_LOST)))

    def now(self) -> float:
        """Return the time of its clock."""
        return self._clock()

    async def submit(self, job: Job) -> None:
        """Queue ``job``; once this returns, it is stored, where jobs of its model are.

        Raises:
            RuntimeClosedError: the queue does not run.
            JobQuotaError: its app has too many jobs, or they have run for too long.
            ContextQuotaError, ContextStoreError: it cannot be stored.
        """
        await self.sweep()
        if self._stopping:
            raise RuntimeClosedError(
                "background jobs are submitted while their service runs, and it does not. Submit them within "
                "'async with BackgroundService(…) as background:'."
            )
        jobs = self.table.of(job.app)
        if sum(each.request_bytes for each in jobs) + job.request_bytes > self.config.bytes_per_app:
            limit = f"{self.config.bytes_per_app} bytes of background jobs"
            raise JobQuotaError("bytes_per_app", limit, "when some are deleted")
        if sum(not each.status.ended for each in jobs) >= self.config.jobs_per_app:
            limit = f"{self.config.jobs_per_app} background jobs that have not ended"
            raise JobQuotaError("jobs_per_app", limit, "when one of them has")
        most = self.config.seconds_per_app
        if most is not None and (used := self._seconds_of(job.app)) >= most:
            limit = f"background jobs that run for {most:g} seconds within a day, and has used {used:.0f}"
            raise JobQuotaError("seconds_per_app", limit, "tomorrow")
        if all(each.status.ended for each in jobs):  # what it has not used before does not count
            self._begun[job.app] = max(self._begun[job.app], self._least_begun())
        await self.table.add(job)
        self._start()

    async def cancel(self, job: Job) -> None:
        """End ``job``, unless it has ended."""
        if job.status.ended:
            return
        self._cancelled.add(job)
        if (running := self._tasks.get(job)) is None:
            await self._end(job, JobStatus.CANCELLED)
        else:
            running.run.cancel()
            await asyncio.wait([running.whole])

    async def remove(self, job: Job) -> None:
        """End ``job`` and delete it.

        Raises:
            ContextStoreError: it cannot be deleted, and is still there.
        """
        await self.cancel(job)
        await self.table.remove(job)

    async def forget(self, app: str, context_id: str | None) -> None:
        """Forget the jobs whose result was in a context that was deleted; with None all jobs of ``app``."""
        for job in self.table.of(app):
            if context_id is None:
                self.table.forget(job)
                await self.cancel(job)
            elif job.context_id == context_id and job.result is not None:
                await self.table.remove(job)

    async def events(self, job: Job, after: int = -1) -> AsyncGenerator[Event, None]:
        """Yield the events of ``job`` whose number is above ``after``, until it has ended.

        Raises:
            RuntimeClosedError, EngineFailedError: this process does not go on with it.
        """
        while True:
            changed, ended = job.changed, job.stream_ended
            for event in job.events_after(after):
                after = event["sequence_number"]
                yield event
            if ended:
                return
            await job.wait(changed)

    async def ended(self, job: Job) -> None:
        """Wait until ``job`` has ended, and where jobs are stored, until its end is.

        Raises:
            RuntimeClosedError, EngineFailedError: this process does not go on with it.
        """
        while not job.stream_ended:
            await job.wait(job.changed)

    def place(self, job: Job) -> Place | None:
        """Return where ``job`` is in the queue; None if it has ended."""
        return self.places().get(job)

    def places(self) -> dict[Job, Place]:
        """Return where the jobs that have not ended are: those that run, then the others in their order."""
        known, concurrent = bool(self._durations) and self.obstacle is None, self.config.concurrent
        shortest = min((each.shortest_s for each in self._durations), default=0.0)
        longest = max((each.longest_s(concurrent) for each in self._durations), default=0.0)
        found = {job: Place(0, 0, (0.0, longest) if known else None) for job in self._tasks}
        least, apps, before = self._least_begun(), set(self._apps), self._begun.copy()
        ranked = itertools.groupby(enumerate(self._waiting()), key=lambda each: each[1][0])
        for rank, equals in ranked:
            same = [(position, job) for position, (_, job) in equals]
            for position, job in same:
                more = sum(max(0, rank - max(before[app], least)) for app in apps - {job.app})
                at_most = position + more
                rounds, most_rounds = (ahead // concurrent for ahead in (position, at_most))
                done = ((rounds + 1) * shortest, (most_rounds + 2) * longest) if known else None
                found[job] = Place(position, at_most, done)
            before.update(job.app for _, job in same)
        return found

    async def sweep(self) -> None:
        """End jobs that have waited for too long, and delete what is kept for no longer."""
        now = self._clock()
        for used in self._used.values():
            for id in [id for id, (last, _) in used.items() if last <= now - DAY_S]:
                del used[id]
        for job in self.table.all():
            if job.ended is None:
                if job not in self._tasks and now - job.created >= self.config.expire_s:
                    job.problem = f"it has not ended within {self.config.expire_s:g} seconds. Send it again."
                    await self._end(job, JobStatus.FAILED)
            elif now - job.ended >= self.config.keep_s:
                await self.table.remove(job)
            elif job.events and now - job.ended >= self.config.events_s:
                job.take_back(0, "")
                await self.table.save(job)

    def _seconds_of(self, app: str) -> float:
        return sum(run_s for _, run_s in self._used[app].values())

    def _waiting(self) -> list[tuple[int, Job]]:
        """Return the jobs that do not run, in their order, each with its rank.

        That is how many of its app begin before it, counted together with those that have begun.
        """
        rank = self._begun.copy()
        ranked = []
        for job in sorted(self.table.all(), key=lambda job: job.created):
            if job.status.ended or job in self._tasks:
                continue
            if job.started is None:
                ranked.append((rank[job.app], job))
                rank[job.app] += 1
            else:
                ranked.append((-1, job))
        return sorted(ranked, key=itemgetter(0))

    def _least_begun(self) -> int:
        """Return how many jobs have begun of the app of which the fewest have, of those that have any."""
        return min((self._begun[job.app] for job in self.table.all() if not job.status.ended), default=0)

    def _start(self) -> None:
        """Let as many jobs run as may."""
        if self._stopping:
            return
        waiting = self._waiting()
        if waiting or self._tasks:
            self._unended.set()
        else:
            self._unended.clear()
        self.obstacle = self._look() if waiting else self.obstacle
        if self.obstacle is None:
            for _, job in waiting[: max(0, self.config.concurrent - len(self._tasks))]:
                if job.started is None:
                    self._begun[job.app] += 1
                    job.started = self._clock()
                    if self.on_begin is not None:
                        self.on_begin(max(0.0, job.started - job.created))
                self._count_running(self._clock())
                run = asyncio.create_task(self._run(job))
                self._tasks[job] = _Running(run, asyncio.create_task(self._run_one(job, run)))

    async def _watch(self) -> None:
        """Pause and start jobs as the machine allows, and look only while there are any."""
        while True:
            await self._unended.wait()
            self.obstacle = self._look()
            if self.obstacle is None:
                self._start()
            else:
                await self._pause()
            await asyncio.sleep(LOOK_S)

    async def _pause(self) -> None:
        running = list(self._tasks.values())
        for each in running:
            each.run.cancel()
        if running:
            await asyncio.wait([each.whole for each in running])

    async def _run_one(self, job: Job, run: asyncio.Task[Outcome]) -> None:
        """Store ``job`` while it runs, and then what it has ended with. Is not cancelled; ``run`` may be."""
        job.status, counted = JobStatus.IN_PROGRESS, self._clock()
        shared = self._running_s
        while not run.done():
            await self.table.save(job)
            await asyncio.wait([run], timeout=SAVE_S)
            now = self._clock()
            job.run_s += now - counted
            job.shared_s += self._count_running(now) - shared
            shared = self._running_s
            self.run_s[job.app] += now - counted
            self._used[job.app][job.id] = (now, job.run_s)
            counted = now
        del self._tasks[job]
        if run.cancelled():
            if job in self._cancelled:
                await self._end(job, JobStatus.CANCELLED)
            else:
                await self.table.save(job)
        elif (error := run.exception()) is not None:
            _log.error("The background job %s has failed.", job.id, exc_info=error)
            job.problem = "the server failed. Its log has the cause."
            await self._end(job, JobStatus.FAILED)
        else:
            await self._end(job, *run.result())

    def _count_running(self, now: float) -> float:
        """Return the sum of the seconds for which jobs have run. Call it before their number changes."""
        self._running_s += len(self._tasks) * (now - self._counted_at)
        self._counted_at = now
        return self._running_s

    def _note_duration(self, job: Job) -> None:
        if job.status in (JobStatus.COMPLETED, JobStatus.INCOMPLETE) and job.run_s:
            self._durations.append(_Duration(job.run_s, max(1.0, job.shared_s / job.run_s)))

    async def _end(self, job: Job, status: JobStatus, result: Mapping[str, Any] | None = None) -> None:
        if result is None:
            last, result = self._end_of(job, status)
            job.add([last])
        job.status, job.result, job.ended = status, result, self._clock()
        self._note_duration(job)
        self._cancelled.discard(job)
        job.notify()
        await self.table.save(job)
        self._start()
