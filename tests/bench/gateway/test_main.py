"""The gateway bench on few answers."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.bench.engines.side import Answer, Request
from agentrt.bench.gateway import main as gateway
from agentrt.errors import ConfigurationError

pytestmark = pytest.mark.bench


@pytest.mark.needs("redis-server")
def test_few_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "PAIRS", {True: 2})
    report = gateway.run(quick=True, workloads=None, progress=lambda line: None)
    assert report.bench == "gateway"
    assert report.figures.keys() == {"added_ms_p50", "added_ms_at_the_end_p50"}


def test_what_is_added_is_the_median_of_the_differences_behind_the_first() -> None:
    class Server:
        def __init__(self, *first_s: float) -> None:
            self.first_s = iter(first_s)

        def generate(self, request: Request) -> Answer:
            first_s = next(self.first_s)
            return Answer(request, 10, 5, first_s, 2 * first_s)

    behind: Any = Server(9.0, 1.5, 2.5, 4.0)
    without: Any = Server(1.0, 1.0, 1.5, 1.5)
    assert [each.value for each in gateway.added_ms(behind, without, 3)] == [1000.0, 2000.0]


def test_without_a_redis_server_it_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.shutil, "which", lambda _: None)
    with pytest.raises(ConfigurationError, match="needs valkey-server or redis-server"):
        gateway.run(quick=True, workloads=None, progress=lambda _: None)
