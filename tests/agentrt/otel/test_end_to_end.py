"""One trace across processes: an agent, `agentrt serve` and a collector that takes OTLP over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http", reason="needs opentelemetry-exporter-otlp-proto-http"
)

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
HELLO = {"model": "nano", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 2}


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**kept, **variables}


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts processes, which are killed at the end of the test."""
    with ExitStack() as stack:

        def one(*command: str, **variables: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, *command],
                env=environment(**variables),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield one


class Collector:
    """A collector in a process of its own."""

    def __init__(self, start: Callable[..., subprocess.Popen[str]], file: Path, *options: str) -> None:
        self._file = file
        process = start(str(HERE / "collector.py"), str(file), *options)
        assert process.stdout is not None
        self.url = f"http://127.0.0.1:{int(process.stdout.readline())}"

    def requests(self, kind: str) -> list[dict[str, Any]]:
        """Return the parts of all requests: kind is resourceSpans or resourceMetrics."""
        if not self._file.exists():
            return []
        lines = self._file.read_text(encoding="utf-8").splitlines()
        return [part for line in lines for part in json.loads(line).get(kind, ())]

    def spans(self) -> list[dict[str, Any]]:
        """Return all spans, each with its ``service``."""
        return [
            {**span, "service": attributes(part["resource"])["service.name"]}
            for part in self.requests("resourceSpans")
            for scope in part["scopeSpans"]
            for span in scope["spans"]
        ]

    def metrics(self) -> set[tuple[str, str]]:
        """Return the names of all metrics, each with its service."""
        return {
            (attributes(part["resource"])["service.name"], metric["name"])
            for part in self.requests("resourceMetrics")
            for scope in part["scopeMetrics"]
            for metric in scope["metrics"]
        }


def attributes(described: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values()), None) for each in described["attributes"]}


def serve(start: Callable[..., subprocess.Popen[str]], **variables: str) -> tuple[subprocess.Popen[str], str]:
    """Start `agentrt serve`; return it and its address."""
    process = start("-m", "agentrt", "serve", "--port", "0", "--no-auth", **variables)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"at (http://\S+)/v1", line):
            return process, found.group(1)
    raise AssertionError(f"it did not start: {process.wait()}")


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 0


def test_one_trace_across_processes(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    collector = Collector(start, tmp_path / "received")
    sending = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    server, url = serve(start, **sending)
    agent = start(str(HERE / "agent.py"), f"{url}/v1", OTEL_SERVICE_NAME="agent", **sending)
    printed, errors = agent.communicate(timeout=240)
    assert agent.returncode == 0, errors
    stop(server)
    spans = collector.spans()
    assert {span["traceId"] for span in spans} == {spans[0]["traceId"]}
    by_id = {span["spanId"]: span for span in spans}
    named: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for span in spans:
        named.setdefault((span["service"], span["name"]), []).append(span)

    (root,) = named["agent", "invoke_agent"]
    assert [span["name"] for span in spans if "parentSpanId" not in span] == ["invoke_agent"]
    assert all(span["parentSpanId"] in by_id for span in spans if span is not root)
    turns, drafts = named["agent", "speculate"], named["agentrt", "chat nano"]
    requests = [by_id[span["parentSpanId"]] for span in drafts]
    assert {request["name"] for request in requests} == {"POST /v1/chat/completions"}
    assert {request["parentSpanId"] for request in requests} <= {turn["spanId"] for turn in turns}
    assert {request["kind"] for request in requests} == {"SPAN_KIND_SERVER"}
    assert {span["parentSpanId"] for span in named["agent", "chat nano"]} == {root["spanId"]}

    assert json.loads(printed)["claims"] == 1
    runs = named["agent", "execute_tool get_weather"]
    (early,) = [run for run in runs if "agentrt.predictor" in attributes(run)]
    (call,) = [run for run in runs if run is not early]
    assert early["parentSpanId"] in {turn["spanId"] for turn in turns}
    assert call["parentSpanId"] == root["spanId"]
    assert [link["spanId"] for link in call["links"]] == [early["spanId"]]
    assert [link["spanId"] for link in early["links"]] == [call["spanId"]]
    (fetch,) = named["agent", "fetch"]
    assert fetch["parentSpanId"] == early["spanId"]

    assert {
        ("agentrt", "gen_ai.server.request.duration"),
        ("agentrt", "gen_ai.server.time_to_first_token"),
        ("agent", "gen_ai.client.token.usage"),
        ("agent", "gen_ai.client.operation.duration"),
    } <= collector.metrics()
    received = (tmp_path / "received").read_text(encoding="utf-8")
    assert not any(text in received for text in ("Oslo", "weather in", "rain"))


@pytest.mark.parametrize("fault", ["down", "slow"])
def test_nothing_waits_for_the_collector(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, fault: str
) -> None:
    """Neither answers nor the server's end: the collector answers nothing as long as the test runs."""
    if fault == "slow":
        collector = Collector(start, tmp_path / "received", "silent").url
    else:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            collector = f"http://127.0.0.1:{closed.getsockname()[1]}"
    server, url = serve(
        start,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector,
        OTEL_EXPORTER_OTLP_TIMEOUT="600",
        OTEL_BSP_SCHEDULE_DELAY="1",
        OTEL_BSP_MAX_QUEUE_SIZE="2",
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1",
        OTEL_METRIC_EXPORT_INTERVAL="50",
    )
    with httpx.Client(base_url=url, timeout=60) as client:
        for _ in range(20):
            assert client.post("/v1/chat/completions", json=HELLO).status_code == 200
    stop(server)
