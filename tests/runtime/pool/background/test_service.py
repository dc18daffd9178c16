"""Background jobs in the process: submitted, awaited, read again, cancelled, and those of the one before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ConfigurationError, InvalidRequestError, JobQuotaError, RuntimeClosedError
from agentrt.runtime import (
    BackgroundConditions,
    BackgroundConfig,
    BackgroundService,
    JobStatus,
    LocalRuntime,
    ModelPool,
    PooledModel,
    RuntimeConfig,
)
from tests.patience import in_event_loop
from tests.runtime.conftest import Gate

HELLO = [{"role": "user", "content": "Hello!"}]
LONG: Any = {"max_tokens": 60, "ignore_eos": True}
ANY_LOAD = BackgroundConditions(max_other_load=None)
CONFIG = BackgroundConfig(conditions=ANY_LOAD)


@in_event_loop
async def test_a_job_has_the_answer_of_the_foreground(runtime: LocalRuntime) -> None:
    expected = runtime.generate(HELLO, max_tokens=20)
    async with BackgroundService(runtime, CONFIG) as background:
        job = await background.submit(HELLO, max_tokens=20, metadata={"mail": "7"})
        assert job.response["queue"]["position"] == 0
        response = await job.result()
        assert response["output"][0]["content"][0]["text"] == expected.text
        assert (response["usage"]["output_tokens"], response["metadata"]) == (
            expected.usage.completion_tokens,
            {"mail": "7"},
        )
        assert job.status in (JobStatus.COMPLETED, JobStatus.INCOMPLETE)
        events = [event async for event in job.events()]
        later = [event async for event in job.events(events[3]["sequence_number"])]
        assert later == events[4:]
        assert [each.id for each in await background.jobs()] == [job.id]
        assert (found := background.get(job.id)) is not None
        assert found.response == response
        await job.delete()
        assert background.get(job.id) is None


@in_event_loop
async def test_a_job_that_is_cancelled_keeps_its_answer_so_far(runtime: LocalRuntime, gate: Gate) -> None:
    async with BackgroundService(runtime, CONFIG) as background:
        job = await background.submit(HELLO, **LONG)
        waiting = asyncio.create_task(job.result())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not job.status.ended, "who waits has gone, not the job"
        gate.allow(12)
        async for event in job.events():
            if event["type"] == "response.output_text.delta":
                break
        gate.open()
        await job.cancel()
        response = await job.result()
        assert (response["status"], job.status) == ("cancelled", "cancelled")
        assert response["output"][0]["content"][0]["text"]


@in_event_loop
async def test_apps_have_their_own_jobs_and_quotas(runtime: LocalRuntime, gate: Gate) -> None:
    few = BackgroundConfig(jobs_per_app=1, conditions=ANY_LOAD)
    async with BackgroundService(runtime, few, apps=("mail", "notes")) as background:
        job = await background.submit(HELLO, app="mail", **LONG)
        with pytest.raises(JobQuotaError):
            await background.submit(HELLO, **LONG)
        other = await background.submit(HELLO, app="notes", **LONG)
        assert [each.id for each in await background.jobs("notes")] == [other.id]
        assert background.get(job.id, "notes") is None
        with pytest.raises(InvalidRequestError, match="nobody"):
            await background.submit(HELLO, app="nobody")
        with pytest.raises(InvalidRequestError, match="is empty"):
            await background.submit([])
        gate.open()
        for each in (job, other):
            await each.delete()


@in_event_loop
async def test_jobs_wait_for_the_machine_and_say_so(runtime: LocalRuntime) -> None:
    never = BackgroundConfig(conditions=BackgroundConditions(max_other_load=1e-9))
    async with BackgroundService(runtime, never) as background:
        job = await background.submit(HELLO)
        assert job.response["queue"]["waits_for"]["code"] in ("measuring", "other_load")
        await job.delete()


@pytest.mark.check
@in_event_loop
async def test_jobs_go_on_in_the_next_process(tmp_path: Path) -> None:
    config = RuntimeConfig(context_folder=tmp_path, memory_bytes=32 * 2**20)
    never = BackgroundConfig(conditions=BackgroundConditions(max_other_load=1e-9))
    with LocalRuntime.open("nano", config) as runtime:
        async with BackgroundService(runtime, never) as background:
            id = (await background.submit(HELLO, max_tokens=20)).id
            with pytest.raises(ConfigurationError, match="Use that one"):
                await BackgroundService(runtime).__aenter__()
    with LocalRuntime.open("nano", config) as runtime:
        async with BackgroundService(runtime, CONFIG) as background:
            (job,) = await background.jobs()
            response = await job.result()
            numbers = [event["sequence_number"] async for event in job.events()]
            assert (job.id, numbers) == (id, sorted(set(numbers)))
    pool = ModelPool([PooledModel.find("nano", config, ["renamed"])])
    try:
        async with pool.running(), BackgroundService(pool, CONFIG) as background:
            (job,) = await background.jobs()
            assert await job.result() == response
            assert (await (await background.submit(HELLO, model="renamed", max_tokens=2)).result())["output"]
            waiting = await background.submit(HELLO, **LONG)
    finally:
        await asyncio.to_thread(pool.close)
    with LocalRuntime.open("nano", config) as runtime:
        async with BackgroundService(runtime, CONFIG) as background:
            found = background.get(waiting.id)
            assert found is not None, "its model had another name"
            assert (await found.result())["status"] == "incomplete"


@in_event_loop
async def test_nobody_waits_for_a_job_that_the_service_has_left(runtime: LocalRuntime, gate: Gate) -> None:
    service = BackgroundService(runtime, CONFIG)
    with pytest.raises(RuntimeClosedError, match="async with"):
        await service.submit(HELLO)
    async with service as background:
        job = await background.submit(HELLO, **LONG)

        async def read() -> None:
            async for _ in job.events():
                pass

        waiting = [asyncio.create_task(job.result()), asyncio.create_task(read())]
        gate.allow(12)
        await anext(event async for event in job.events() if event["type"].endswith(".delta"))
        gate.open()
    assert not job.status.ended
    for each in (*waiting, job.result()):
        with pytest.raises(RuntimeClosedError, match="not stored: submit it again"):
            await each
    with pytest.raises(RuntimeClosedError, match="async with"):
        await service.submit(HELLO)
    async with service:  # it has them still
        assert (await job.result())["status"] == "incomplete"


@pytest.mark.parametrize("stored", [False, True])
@in_event_loop
async def test_a_runtime_that_closes_before_its_jobs_is_said(tmp_path: Path, stored: bool) -> None:
    config = RuntimeConfig(context_folder=tmp_path if stored else None, memory_bytes=32 * 2**20)
    one = BackgroundConfig(concurrent=1, conditions=ANY_LOAD)
    with LocalRuntime.open("nano", config) as runtime:
        async with BackgroundService(runtime, one) as background:
            jobs = [await background.submit(HELLO, **LONG) for _ in range(2)]
            waiting = [asyncio.create_task(job.result()) for job in jobs]
            await asyncio.to_thread(runtime.close)
            for each in waiting:  # the second one has not begun
                with pytest.raises(RuntimeClosedError, match="Open it again"):
                    await each
            with pytest.raises(RuntimeClosedError):
                await background.submit(HELLO)
    if stored:
        with LocalRuntime.open("nano", config) as runtime:
            async with BackgroundService(runtime, CONFIG) as background:
                for job in jobs:
                    with pytest.raises(RuntimeClosedError):
                        await job.result()
                    assert (found := background.get(job.id)) is not None
                    assert (await found.result())["status"] == "incomplete"
