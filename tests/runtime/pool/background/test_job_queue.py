"""The queue of background jobs: order, pauses, ends, what survives a crash, and what is said of places."""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.errors import ContextStoreError, JobQuotaError
from agentrt.runtime.pool.background.conditions import Obstacle, Reason
from agentrt.runtime.pool.background.config import BackgroundConfig
from agentrt.runtime.pool.background.job import Job, JobStatus
from agentrt.runtime.pool.background.job_queue import LOOK_S, JobQueue, Outcome
from agentrt.runtime.pool.background.job_table import JobTable
from tests.patience import PATIENCE_S, in_event_loop
from tests.runtime.contexts.memory_store import MemoryStore

TEXT = "answer"
STEPS = ["submit", "step", "step", "save", "pause", "crash", "cancel"]
BATTERY = Obstacle(Reason.ON_BATTERY, "the machine runs on battery")


class Bench:
    """A queue, what its jobs do, and a clock, all moved by hand."""

    def __init__(self, store: MemoryStore | None = None, **settings: Any) -> None:
        self.now = 0.0
        self.obstacle: Obstacle | None = None
        self.begun: list[str] = []
        self.steps: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))
        self.free = False
        self.at_once = 1
        stores: Any = {} if store is None else {"model": store}
        config = BackgroundConfig(**{"concurrent": 2} | settings)
        self.queue = JobQueue(
            JobTable(stores), self.run, self.end, config, lambda: self.obstacle, lambda: self.now
        )

    def end(self, job: Job, status: JobStatus) -> tuple[Any, Any]:
        """End a job with what there is of it."""
        return {"delta": "", "ended": status.value}, {"text": job.text}

    async def run(self, job: Job) -> Outcome:
        """Answer letter by letter, and go on with several at once; take back what is no letter."""
        self.begun.append(job.id)
        if job.events[-1].get("call"):
            job.take_back(len(job.events) - 1, job.text)
        while job.text != job.request["text"]:
            if not self.free:
                await self.steps[job.id].acquire()
            letters = job.request["text"][len(job.text) :][: self.at_once]
            job.add([{"delta": letters}], letters)
            job.add([{"delta": "", "call": True}])
        return JobStatus.COMPLETED, {"text": job.text}

    async def settle(self) -> None:
        """Let everything that can happen without time happen."""
        for _ in range(5):
            for _ in range(20):
                await asyncio.sleep(0)
            await self.queue.table.settle()

    async def submit(self, id: str, app: str = "app") -> Job:
        self.now += 1
        job = Job(id, app, "model", {"text": TEXT}, self.now)
        job.add([{"delta": ""}])
        await self.queue.submit(job)
        await self.settle()
        return job

    async def finish(self, id: str) -> None:
        for _ in TEXT:
            self.steps[id].release()
        await self.settle()

    async def look(self, obstacle: Obstacle | None) -> None:
        self.obstacle = obstacle
        for _ in range(2):
            await asyncio.sleep(LOOK_S)
        await self.settle()


@asynccontextmanager
async def bench(*apps: str, store: MemoryStore | None = None, **settings: Any) -> Any:
    made = Bench(store, **settings)
    async with made.queue.running(apps or ("app",)):
        yield made


async def until_counted(made: Bench, seconds: float) -> None:
    """Wait until what runs has been counted, too."""
    while made.queue._seconds_of("app") < seconds:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(LOOK_S)


async def read(queue: JobQueue, job: Job, after: int = -1) -> list[Any]:
    return [event async for event in queue.events(job, after)]


@in_event_loop
async def test_so_many_run_at_once_in_the_order_in_which_they_came() -> None:
    async with bench() as made:
        jobs = [await made.submit(id) for id in "abcd"]
        assert made.begun == ["a", "b"]
        await made.finish("b")
        assert made.begun == ["a", "b", "c"]
        assert [job.status.value for job in jobs] == ["in_progress", "completed", "in_progress", "queued"]
        assert jobs[1].result == {"text": TEXT}
        for id in "acd":
            await made.finish(id)
        assert {job.status for job in jobs} == {JobStatus.COMPLETED}


@in_event_loop
async def test_apps_take_turns() -> None:
    async with bench("one", "two", concurrent=1) as made:
        for id in "abc":
            await made.submit(id, "one")
        for id in "xy":
            await made.submit(id, "two")
        for id in "abxcy":
            await made.finish(id)
        assert made.begun == list("abxcy")


@in_event_loop
async def test_jobs_pause_and_go_on_where_they_were() -> None:
    async with bench() as made:
        job = await made.submit("a")
        made.steps["a"].release()
        await made.settle()
        await made.look(BATTERY)
        waiting = await made.submit("b")
        assert (job.text, job.status, waiting.status) == ("a", JobStatus.IN_PROGRESS, JobStatus.QUEUED)
        assert made.queue.place(job).done_in_s is None
        await made.look(None)
        await made.finish("a")
        assert made.begun == ["a", "a", "b"]
        assert "".join(event["delta"] for event in await read(made.queue, job)) == TEXT


@in_event_loop
async def test_a_job_that_is_cancelled_ends_whether_it_runs_or_waits() -> None:
    async with bench(concurrent=1) as made:
        running, waiting = [await made.submit(id) for id in "ab"]
        made.steps["a"].release()
        reader = asyncio.create_task(read(made.queue, running))
        await made.settle()
        await made.queue.cancel(waiting)
        await made.queue.cancel(running)
        assert [job.status for job in (running, waiting)] == [JobStatus.CANCELLED] * 2
        events = await reader
        assert [event["delta"] for event in events] == ["", "a", "", ""]
        assert events[-1]["ended"] == "cancelled"
        assert running.result == {"text": "a"}
        await made.queue.cancel(running)
        assert (await made.submit("c")).status is JobStatus.IN_PROGRESS


@in_event_loop
async def test_an_unexpected_error_ends_its_job_only(caplog: pytest.LogCaptureFixture) -> None:
    async with bench(concurrent=1) as made:
        job = await made.submit("a")
        made.steps["a"] = None  # type: ignore[assignment]
        await made.queue.cancel(job)
        broken = Job("b", "app", "model", {}, 9.0)
        broken.add([{"delta": ""}])
        await made.queue.submit(broken)
        await made.settle()
        assert (broken.status, broken.problem) == (
            JobStatus.FAILED,
            "the server failed. Its log has the cause.",
        )
        assert broken.events[-1]["ended"] == "failed"
        assert "KeyError" in caplog.text
        assert (await made.submit("c")).status is JobStatus.IN_PROGRESS


@in_event_loop
async def test_an_app_has_so_many_jobs_and_seconds() -> None:
    async with bench("app", "other", jobs_per_app=2, seconds_per_app=10) as made:
        for id in "ab":
            await made.submit(id)
        with pytest.raises(JobQuotaError, match="2 background jobs"):
            await made.submit("c")
        await made.submit("x", "other")
        await made.finish("a")
        made.now += 10
        await asyncio.wait_for(until_counted(made, 10), PATIENCE_S)
        with pytest.raises(JobQuotaError, match="10 seconds within a day"):
            await made.submit("d")
        await made.finish("b")
        made.now += 86_400
        await made.submit("e")
        large = Job("f", "app", "model", {"text": TEXT}, made.now, made.queue.config.bytes_per_app + 1)
        with pytest.raises(JobQuotaError, match="bytes of background jobs"):
            await made.queue.submit(large)


@pytest.mark.parametrize("deleted", ["one", "everything", "kept no longer"])
@in_event_loop
async def test_what_is_deleted_gives_no_seconds_back(deleted: str) -> None:
    async with bench(keep_s=5, seconds_per_app=10) as made:
        job = await made.submit("a")
        made.now += 10
        await asyncio.wait_for(until_counted(made, 10), PATIENCE_S)
        await made.finish("a")
        if deleted == "one":
            await made.queue.remove(job)
        elif deleted == "everything":
            await made.queue.forget("app", None)
        made.now += 5
        with pytest.raises(JobQuotaError, match="has used 10"):
            await made.submit("b")
        assert made.queue.table.all() == []
        made.now += 86_400
        await made.submit("c")


@in_event_loop
async def test_the_seconds_of_stored_jobs_count_in_the_next_process() -> None:
    settings: Any = {"seconds_per_app": 10, "store": MemoryStore()}
    async with bench(**settings) as made:
        await made.submit("a")
        made.now += 10
        await asyncio.wait_for(until_counted(made, 10), PATIENCE_S)
        await made.finish("a")
    async with bench(**settings) as made:
        with pytest.raises(JobQuotaError, match="has used 10"):
            await made.submit("b")


@in_event_loop
async def test_jobs_expire_and_are_kept_for_a_while() -> None:
    settings = {"expire_s": 100, "keep_s": 1000, "events_s": 10}
    async with bench(concurrent=1, store=MemoryStore(), **settings) as made:
        first, second = [await made.submit(id) for id in "ab"]
        made.now += 99
        await made.queue.sweep()
        assert second.status is JobStatus.QUEUED
        made.now += 1
        await made.queue.sweep()
        assert (first.status, second.status) == (JobStatus.IN_PROGRESS, JobStatus.FAILED)
        assert "within 100 seconds" in second.problem
        assert [event.get("ended") for event in second.events] == [None, "failed"]
        made.now += 10
        await made.queue.sweep()
        assert second.events == []
        made.now += 990
        await made.queue.sweep()
        assert made.queue.table.of("app") == [first]


@in_event_loop
async def test_what_a_full_disk_does_not_store_is_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    async with bench(store=store) as made:
        job = await made.submit("a")
        stored = store.apps["app"]["a"]
        stored.failure = ContextStoreError("full")  # type: ignore[assignment]
        await made.finish("a")
        assert job.status is JobStatus.COMPLETED
        assert "".join(event["delta"] for event in await read(made.queue, job)) == TEXT
        assert "is not stored: full" in caplog.text
        store.failure = ContextStoreError("full")  # type: ignore[assignment]
        with pytest.raises(ContextStoreError):
            await made.submit("b")
        assert made.queue.table.of("app") == [job]


@in_event_loop
async def test_the_jobs_of_an_app_whose_contexts_are_deleted_end() -> None:
    store = MemoryStore()
    async with bench("app", "other", store=store) as made:
        job, other = await made.submit("a"), await made.submit("b", "other")
        store.apps["app"]["a"].deleted = True
        await made.queue.forget("app", None)
        await made.settle()
        assert (job.status, made.queue.table.of("app")) == (JobStatus.CANCELLED, [])
        assert other.status is JobStatus.IN_PROGRESS


@pytest.mark.hypothesis
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["submit", "step", "step", "save", "pause", "crash", "cancel"]), st.integers(0, 5)
        )
    )
)
def test_no_job_is_lost_or_run_twice_over_crashes(steps: list[tuple[str, int]]) -> None:
    """A crash ends the queue without a last record; the next one has what the store has."""

    async def run() -> None:
        jobs, cancelled, seen = set[str](), set[str](), defaultdict[str, list[Any]](list)

        async def until_crash(store: MemoryStore) -> MemoryStore:
            made, ready = Bench(store), asyncio.Event()
            made.at_once = 1 + len(steps) % 3
            serving = asyncio.create_task(serve(made, ready))
            await ready.wait()
            await made.settle()
            while steps:
                kind, number = steps.pop(0)
                known = sorted(jobs)
                if kind == "crash":
                    break
                if kind == "submit":
                    jobs.add(id := f"{len(jobs):03}")
                    await made.submit(id, "app" if number % 2 else "other")
                elif kind == "save":
                    for job in made.queue.table.all():
                        await made.queue.table.save(job)
                elif kind == "pause":
                    await made.queue._pause()
                    made.queue._start()
                elif known and kind == "step":
                    made.steps[known[number % len(known)]].release()
                elif known:
                    cancelled.add(id := known[number % len(known)])
                    await made.queue.cancel(find(made, id))
                await made.settle()
                for job in made.queue.table.all():
                    last = seen[job.id][-1]["sequence_number"] if seen[job.id] else -1
                    seen[job.id] += job.events_after(last)
            crashed = copy.deepcopy(store)  # what is stored from now on is not found again
            serving.cancel()
            await asyncio.wait([serving])
            return crashed

        store = MemoryStore()
        while steps:
            store = await until_crash(store)
        made = Bench(store)
        made.free = True
        async with made.queue.running(("app", "other")):
            for id in sorted(jobs):
                job = find(made, id)
                events = seen[id] + await read(
                    made.queue, job, seen[id][-1]["sequence_number"] if seen[id] else -1
                )
                numbers = [event["sequence_number"] for event in events]
                assert numbers == sorted(set(numbers))
                text = "".join(event["delta"] for event in events)
                if job.status is JobStatus.CANCELLED:
                    assert id in cancelled
                    assert TEXT.startswith(text)
                else:
                    assert (job.status, job.result, text) == (JobStatus.COMPLETED, {"text": TEXT}, TEXT)

    asyncio.run(run())


async def serve(made: Bench, ready: asyncio.Event) -> None:
    async with made.queue.running(("app", "other")):
        ready.set()
        await asyncio.Event().wait()


def find(made: Bench, id: str) -> Job:
    return next(job for job in made.queue.table.all() if job.id == id)


@pytest.mark.hypothesis
@given(
    arrivals=st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), st.integers(1, 9)), min_size=1),
    concurrent=st.integers(1, 3),
    data=st.data(),
)
def test_a_place_is_wrong_by_what_it_says_only(
    arrivals: list[tuple[str, int]], concurrent: int, data: st.DataObject
) -> None:
    """At most so many jobs begin before one, whatever else is sent; it is done in the time that is said."""

    async def run() -> None:
        async with bench("one", "two", "three", concurrent=concurrent) as made:
            said: dict[str, tuple[int, int]] = {}

            async def end_one() -> None:
                running = [job for job in made.queue.table.all() if job in made.queue._tasks]
                await made.finish(data.draw(st.sampled_from(running)).id)

            for number, (app, ends) in enumerate(arrivals):
                job = await made.submit(f"{number}", app)
                place = made.queue.place(job)
                assert place is not None
                if job not in made.queue._tasks:
                    said[job.id] = (len(made.begun), place.position_at_most)
                    assert place.position <= place.position_at_most
                for _ in range(min(ends % 3, len(made.queue._tasks))):
                    await end_one()
            while made.queue._tasks:
                await end_one()
            for id, (before, most) in said.items():
                assert made.begun.index(id) - before <= most

    asyncio.run(run())


@pytest.mark.hypothesis
@given(
    concurrent=st.integers(1, 4),
    alone=st.integers(1, 3),
    jobs=st.integers(1, 12),
    exponent=st.sampled_from([0.0, 0.3, 1.0]),
)
@example(concurrent=4, alone=2, jobs=9, exponent=0.5)
def test_jobs_are_done_in_the_time_that_is_said(
    concurrent: int, alone: int, jobs: int, exponent: float
) -> None:
    """Several at once take each as long as alone, or up to as many times longer; single ones were seen."""

    async def run() -> None:
        async with bench(concurrent=concurrent) as made:
            left: dict[str, float] = {}
            said: dict[str, tuple[float, float]] = {}

            async def end_next() -> None:
                running = [job for job in made.queue.table.all() if job in made.queue._tasks]
                slower = len(running) ** exponent
                first = min(running, key=lambda job: left.setdefault(job.id, 10.0))
                passes = left[first.id]
                made.now += passes * slower
                for job in running:
                    left[job.id] -= passes
                if first.id in said:
                    earliest, latest = said[first.id]
                    assert earliest - 1e-6 <= made.now <= latest + 1e-6
                await made.finish(first.id)

            for number in range(alone):
                await made.submit(f"alone {number}")
                await end_next()
            ids = [(await made.submit(f"{number}")).id for number in range(jobs)]
            for job, place in made.queue.places().items():
                assert place.done_in_s is not None
                said[job.id] = (made.now + place.done_in_s[0], made.now + place.done_in_s[1])
            for _ in ids:
                await end_next()
            assert len(said) == jobs

    asyncio.run(run())
