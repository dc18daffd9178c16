"""The live page of the demo."""

from __future__ import annotations

import datetime as dt
import io
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from agentrt.examples.assistant.latencies import Latencies
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.demo.page import DemoPage, SpeculationLog
from agentrt.examples.demo.run import run_demo
from agentrt.examples.demo.view import PlainView
from agentrt.reports import AheadKept, CallClaimed, CallMissed, DraftArrived, SpeculationWasted


@pytest.mark.real_model
def test_it_shows_the_engine_and_the_speculation(tmp_path: Path) -> None:
    sample = tmp_path / "sample"
    write_sample_data(sample, dt.date.today())
    frames: list[dict[str, Any]] = []
    begun = threading.Event()
    page = DemoPage()

    def read(address: str, token: str) -> None:
        headers = {"authorization": f"Bearer {token}"}
        with httpx.stream("GET", f"{address}live/events", headers=headers, timeout=60) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    frames.append(json.loads(line[6:]))
                    begun.set()

    with page.served() as (address, token):
        assert httpx.get(address).status_code == 200
        assert httpx.get(f"{address}live/events").status_code == 401
        assert (
            httpx.get(f"{address}v1/models", headers={"authorization": f"Bearer {token}"}).status_code == 404
        )
        reader = threading.Thread(target=read, args=(address, token))
        reader.start()
        assert begun.wait(30)
        view = PlainView(Console(file=io.StringIO()))
        requests = ["What does the mail about roof repair say?"]
        result = run_demo(sample, Latencies().times(0), view, requests=requests, page=page)
    reader.join(30)
    assert not reader.is_alive(), "the stream ends with the page"
    models = [model for frame in frames for model in frame["models"]]
    assert {model["name"] for model in models} == {"nano"}
    assert {row["class"] for model in models for row in model["ended"]} == {"reactive", "proactive"}
    assert any(model["kernels"] for model in models)
    counts = page.speculation.take()
    turns = result.comparison.speculative
    # The warm-up before the first request calls no tool.
    assert counts["claims"] + counts["misses"] == sum(turn.counts.hits + turn.counts.misses for turn in turns)
    recent = [each for frame in frames for each in frame["speculation"]["recent"]]
    assert {"search_mail", "read_mail"} <= {each["tool"] for each in recent}
    assert "roof repair" not in json.dumps(frames)


def test_what_is_counted() -> None:
    log = SpeculationLog()
    log.on_event(DraftArrived(1, "learner", "look", 0.1))
    log.on_event(CallClaimed(1, "look", tool_s=0.5, waited_s=0.1, draft_s=0.1))
    log.on_event(CallMissed(1, "find", 0.2, "not drafted"))
    log.on_event(SpeculationWasted(1, "look", 0.2, "not called"))
    log.on_event(AheadKept(2, 0.3))
    first, second = log.take(), log.take()
    recent = [(each["tool"], each["what"]) for each in first.pop("recent")]
    assert first == {"drafts": 1, "claims": 1, "misses": 1, "wasted": 1, "saved_s": 0.7}
    assert recent == [
        ("look", "drafted"),
        ("look", "claimed"),
        ("find", "run when it was called"),
        ("look", "wasted"),
        ("model request", "sent ahead and kept"),
    ]
    assert second == first | {"recent": []}
    for _ in range(1000):
        log.on_event(DraftArrived(1, "learner", "look", 0.1))
    assert len(log.take()["recent"]) == 100
