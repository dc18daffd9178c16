"""Models, health and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentrt.runtime import LocalRuntime
from tests.runtime.http.serving import Running
from tests.runtime.server.conftest import HELLO


def test_models(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.object) == ("nano", "model")
    assert client.models.retrieve("nano") == model
    assert model.model_extra is not None
    assert model.model_extra["max_model_len"] == runtime.context_length
    assert model.model_extra["status"] == "loaded"


def test_health_reports_a_stalled_engine(
    start: Callable[..., Running], runtime: LocalRuntime, gate: Any
) -> None:
    server = start(stalled_s=0.05)
    assert httpx.get(f"{server.url}/health").json()["status"] == "ok"
    body = {"model": "nano", "messages": HELLO, "max_tokens": 3, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as response:
        gate.arrived()  # the engine is halted here
        stalled = httpx.get(f"{server.url}/health")
        while stalled.status_code == 200:
            stalled = httpx.get(f"{server.url}/health")
        assert stalled.status_code == 503
        assert stalled.json()["status"] == "stalled"
        assert stalled.json()["running"] == 1
        gate.open()
        response.read()
    assert httpx.get(f"{server.url}/health").json()["seconds_since_progress"] == 0


@pytest.mark.parametrize("streamed", [False, True])
def test_metrics(start: Callable[..., Running], streamed: bool) -> None:
    server = start()
    body = {"model": "nano", "messages": HELLO, "max_tokens": 3, "stream": streamed}
    httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    httpx.get(f"{server.url}/v1/nothing/{'x' * 50}")
    text = httpx.get(f"{server.url}/metrics").text
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["agentrt_http_responses_total", "/v1/chat/completions", "200"] == 1
    assert samples["agentrt_http_responses_total", "other", "404"] == 1
    assert samples["agentrt_answer_tokens_total", "completion", "nano"] == 3
    assert samples["agentrt_answer_tokens_total", "prompt", "nano"] > 3
    assert samples["agentrt_answer_seconds_count", "nano"] == 1
    assert samples["agentrt_sequences_running", "nano"] == 0
    assert samples["agentrt_contexts_on_disk", "nano"] == 0
    assert samples["agentrt_engine_sampled_tokens_total", "nano"] >= 3
