"""Models, health and metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentrt.runtime import BackgroundConditions, BackgroundConfig, LocalRuntime
from agentrt.runtime.pool.background.conditions import Reason
from agentrt.runtime.serving.http.identity import Tokens
from tests.patience import until
from tests.runtime.serving.http.serving import Start
from tests.runtime.serving.server.conftest import HELLO, running

ROOT = Path(__file__).parents[4]


def test_models(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    model: Any
    (model,) = client.models.list().data
    assert (model.id, model.object) == ("nano", "model")
    assert client.models.retrieve("nano") == model
    assert model.model_extra["max_model_len"] == runtime.context_length
    assert model.model_extra["status"] == "loaded"


@pytest.mark.parametrize("tokens", [None, Tokens([("owner", "o" * 20)])])
def test_a_stalled_engine_is_not_alive(
    start: Start, runtime: LocalRuntime, gate: Any, tokens: Tokens | None
) -> None:
    url = f"{start(stalled_s=0.05, tokens=tokens).url}/health"
    assert httpx.get(url).json()["status"] == "ok"
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(runtime.generate, HELLO, max_tokens=3)
        gate.arrived()  # the engine is halted here
        until(lambda: httpx.get(url).status_code != 200)
        stalled = httpx.get(url)
        assert (stalled.status_code, stalled.json()["status"]) == (503, "stalled")
        assert stalled.json().get("running") == (1 if tokens is None else None), "for the owner only"
        gate.open()
        answer.result(60)
    assert httpx.get(url).json().get("seconds_since_progress", 0) == 0


def samples_in(text: str) -> dict[tuple[str, ...], float]:
    """The values of Prometheus' text format by name and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("streamed", [False, True])
def test_metrics(start: Start, streamed: bool) -> None:
    server = start()
    body = {"model": "nano", "messages": HELLO, "max_tokens": 3, "stream": streamed}
    httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    httpx.get(f"{server.url}/v1/nothing/{'x' * 50}")
    text = httpx.get(f"{server.url}/metrics").text
    samples = samples_in(text)
    assert samples["agentrt_http_responses_total", "/v1/chat/completions", "200"] == 1
    assert samples["agentrt_http_responses_total", "other", "404"] == 1
    assert samples["agentrt_answer_tokens_bucket", "completion", "64.0", "nano"] == 1
    assert samples["agentrt_answer_tokens_bucket", "prompt", "+Inf", "nano"] == 1
    assert samples["agentrt_answer_seconds_count", "nano"] == 1
    assert samples["agentrt_sequences_running", "nano"] == 0
    assert samples["agentrt_contexts_on_disk", "nano"] == 0
    assert samples["agentrt_engine_sampled_tokens_total", "nano"] % 256 == 0


def test_metrics_do_not_tell_the_length_of_one_prompt(start: Start) -> None:
    server = start()
    for words in (50, 111, 213):
        before = samples_in(httpx.get(f"{server.url}/metrics").text)
        prompt = [{"role": "user", "content": "lasagne " * words}]
        body = {"model": "nano", "messages": prompt, "max_tokens": 7}
        usage = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60).json()["usage"]
        after = samples_in(httpx.get(f"{server.url}/metrics").text)
        changes = {value - before.get(name, 0.0) for name, value in after.items()}
        assert not changes & {usage["prompt_tokens"], usage["total_tokens"]}


def test_what_grows_with_a_text_is_coarse(start: Start, runtime: LocalRuntime, gate: Any) -> None:
    """Also while it is used: one answer is one forward pass a token, and blocks of 32 tokens."""
    server = start()
    with ThreadPoolExecutor() as threads:
        body = {"model": "nano", "messages": [{"role": "user", "content": "lasagne " * 90}], "max_tokens": 9}
        answer = threads.submit(httpx.post, f"{server.url}/v1/chat/completions", json=body, timeout=60)
        gate.arrived()  # the engine is halted here
        during = samples_in(httpx.get(f"{server.url}/metrics").text)
        gate.open()
        assert answer.result().status_code == 200
    step = 256 // runtime.statistics().block_tokens
    used = during["agentrt_kv_blocks", "nano"] - during["agentrt_kv_blocks_free", "nano"]
    assert used > 0
    assert used % step == 0
    after = samples_in(httpx.get(f"{server.url}/metrics").text)
    assert after["agentrt_engine_steps_total", "nano"] % 256 == 0


def test_the_metrics_of_the_background_queue(runtime: LocalRuntime, gate: Any) -> None:
    few = BackgroundConfig(concurrent=1, conditions=BackgroundConditions(max_other_load=None))
    body = {"input": "Hello!", "background": True, "max_output_tokens": 2}
    with running(runtime, background=few) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        ids = [http.post("/v1/responses", json=body).json()["id"] for _ in range(3)]
        http.post(f"/v1/responses/{ids[2]}/cancel")
        samples = samples_in(http.get("/metrics").text)
        names = ("queued", "in_progress", "cancelled", "completed")
        assert [samples["agentrt_background_jobs", name] for name in names] == [1, 1, 1, 0]
        assert samples["agentrt_background_queued_seconds_count",] == 1
        assert not any(samples["agentrt_background_waiting", reason] for reason in Reason)
        gate.open()
        until(lambda: http.get(f"/v1/responses/{ids[1]}").json()["status"] == "incomplete")
        samples = samples_in(http.get("/metrics").text)
        assert samples["agentrt_background_queued_seconds_count",] == 2
        assert samples["agentrt_background_run_seconds_total", "local"] % 10 == 0
    never = BackgroundConfig(conditions=BackgroundConditions(max_other_load=1e-9))
    with running(runtime, background=never) as server, httpx.Client(base_url=server.url, timeout=60) as http:
        id = http.post("/v1/responses", json=body).json()["id"]
        samples = samples_in(http.get("/metrics").text)
        assert sum(samples["agentrt_background_waiting", reason] for reason in Reason) == 1
        http.post(f"/v1/responses/{id}/cancel")
        samples = samples_in(http.get("/metrics").text)
        assert not any(samples["agentrt_background_waiting", reason] for reason in Reason)


def test_the_bytes_of_contexts_are_coarse(open_runtime: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    with running(open_runtime(context_folder=tmp_path)) as server:
        httpx.post(f"{server.url}/v1/contexts", json={})
        samples = samples_in(httpx.get(f"{server.url}/metrics").text)
    assert samples["agentrt_contexts_on_disk", "nano"] > 0
    assert samples["agentrt_context_disk_bytes", "nano"] == 2**20


def test_the_page_and_the_dashboard_name_the_metrics_that_exist(start: Start) -> None:
    server = start()
    httpx.post(f"{server.url}/v1/chat/completions", json={"model": "nano", "messages": HELLO}, timeout=60)
    background = {"input": "Hello!", "background": True, "max_output_tokens": 2}
    id = httpx.post(f"{server.url}/v1/responses", json=background).json()["id"]
    until(lambda: httpx.get(f"{server.url}/v1/responses/{id}").json()["status"] == "incomplete")
    text = httpx.get(f"{server.url}/metrics").text
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)

    page = (ROOT / "docs" / "how-to" / "prometheus.md").read_text(encoding="utf-8")
    questions, table, families = page.partition("| metric | what it counts |")
    assert table
    assert set(re.findall(r"agentrt_\w+", families)) <= set(re.findall(r"^# TYPE (\w+)", text, re.M))
    # A counter's ``_created`` is the time of its first value.
    exported = {name for name in re.findall(r"^# HELP (agentrt_\w+)", text, re.M) if "_created" not in name}
    assert exported <= set(re.findall(r"`(agentrt_\w+)`", page))

    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    queries += [each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for query in (questions, *queries):
        named = set(re.findall(r"agentrt_\w+", query))
        assert named
        assert named <= labels.keys(), query
    for query in queries:
        grouped = {label for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(", ")}
        matched = set(re.findall(r"(\w+)=~", query))
        for metric in re.findall(r"agentrt_\w+", query):
            assert grouped | matched <= labels[metric], query


def test_what_apps_do_is_for_the_owner_only(start: Start) -> None:
    server = start(tokens=Tokens([("owner", "o" * 20), ("notes", "n" * 20)]))
    owner, notes = ({"authorization": f"Bearer {token * 20}"} for token in "on")
    for headers in ({}, notes):
        answer = httpx.get(f"{server.url}/health", headers=headers)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert {"running", "models"} < set(httpx.get(f"{server.url}/health", headers=owner).json())
    assert httpx.get(f"{server.url}/metrics").status_code == 401
    assert httpx.get(f"{server.url}/metrics", headers=notes).status_code == 403
    assert "agentrt_kv_blocks" in httpx.get(f"{server.url}/metrics", headers=owner).text
