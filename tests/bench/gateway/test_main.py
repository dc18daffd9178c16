"""The gateway bench on few tasks, and what it counts."""

from __future__ import annotations

import asyncio
import random

import httpx
import pytest

from agentrt.bench.gateway import main as gateway
from agentrt.bench.gateway import processes
from agentrt.bench.gateway.agents import BrokenStreamError, chunks_of
from agentrt.bench.gateway.faulty_balancer import FaultyBalancer
from agentrt.errors import ConfigurationError
from tests.runtime.serving.gateway.scripted import FINISHED, FIRST, STREAM, Scripted

pytestmark = pytest.mark.bench


@pytest.mark.needs("redis-server")
def test_few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "SIZES", {True: gateway.Size(pairs=2, tasks=12)})
    said: list[str] = []
    report = gateway.run(quick=True, workloads=None, progress=said.append)
    assert report.bench == "gateway"
    assert report.figures["wrong_results"] == report.figures["streams_repeated"] == 0
    assert 0 < report.figures["claimed_fraction_one_replica_killed"] <= 1
    assert {"added_ms_p50", "added_ms_at_the_end_p50"} < set(report.figures)
    assert [row[0] for row in report.tables[0].rows] == ["refusing and breaking engine", "one replica killed"]
    assert "12 tasks" in report.method
    assert any("killed" in line for line in said)


def test_without_a_redis_server_it_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.shutil, "which", lambda _: None)
    with pytest.raises(ConfigurationError, match="needs valkey-server or redis-server"):
        gateway.run(quick=True, workloads=None, progress=lambda _: None)


def test_faults_and_repetitions_are_counted() -> None:
    engine = Scripted(STREAM + FIRST + FINISHED)

    async def run() -> None:
        port = int(engine.url.rpartition(":")[2])
        async with FaultyBalancer(port, random.Random(0)) as balancer, httpx.AsyncClient() as http:

            async def send(attempt: str, body: str = "{}") -> int:
                headers = {"x-bench-attempt": attempt}
                url = f"http://127.0.0.1:{balancer.port}/"
                async with http.stream("POST", url, headers=headers, content=body) as response:
                    if response.status_code == 200:
                        assert len([chunk async for chunk in chunks_of(response)]) == 2
                    return response.status_code

            async def broken(attempt: str) -> None:
                with pytest.raises(BrokenStreamError):
                    await send(attempt)

            await broken("one")  # without [DONE] in what the engine sends
            assert balancer.repeated == 0
            await broken("two")
            assert balancer.repeated == 0
            await broken("two")
            assert balancer.repeated == 1
            balancer.refused = 1.0
            assert await send("three") == 503
            balancer.refused, balancer.broken_off = 0.0, 1.0
            await broken("three")
            assert balancer.repeated == 1
            assert balancer.faults == {"refused": 1, "broken off": 1}

    try:
        asyncio.run(run())
    finally:
        engine.close()
