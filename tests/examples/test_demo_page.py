"""The live page of the demo."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.services import Latencies
from agentrt.examples.demo.page import DemoPage, SpeculationLog
from agentrt.examples.demo.run import run_demo
from agentrt.examples.demo.view import PlainView
from agentrt.reports import AheadKept, CallClaimed, CallMissed, DraftArrived, SpeculationWasted
from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.live.frames import short_id
from tests.runtime.serving.http.serving import until


def read(address: str, token: str, frames: list[dict[str, Any]]) -> None:
    """Collect the frames of a page until it ends."""
    headers = {"authorization": f"Bearer {token}"}
    with httpx.stream("GET", f"{address}live/events", headers=headers, timeout=60) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                frames.append(json.loads(line[6:]))


@pytest.mark.real_model
def test_it_shows_the_engine_and_the_speculation(tmp_path: Path) -> None:
    sample = tmp_path / "sample"
    write_sample_data(sample, dt.date.today())
    frames: list[dict[str, Any]] = []
    page = DemoPage()
    with page.served() as (address, token):
        assert httpx.get(address).status_code == 200
        assert httpx.get(f"{address}live/events").status_code == 401
        assert (
            httpx.get(f"{address}v1/models", headers={"authorization": f"Bearer {token}"}).status_code == 404
        )
        reader = threading.Thread(target=read, args=(address, token, frames))
        reader.start()
        until(lambda: bool(frames))
        view = PlainView(Console(file=io.StringIO()))
        requests = ["What does the mail about roof repair say?"]
        result = run_demo([sample], Latencies().times(0), view, requests=requests, page=page)
    reader.join(30)
    assert not reader.is_alive(), "the stream ends with the page"
    models = [model for frame in frames for model in frame["models"]]
    assert {model["name"] for model in models} == {"nano"}
    assert {row["class"] for model in models for row in model["ended"]} == {"reactive", "proactive"}
    assert any(model["kernels"] for model in models)
    counts = page.speculation.take()
    turns = result.comparison.speculative
    # The warm-up before the first request calls no tool.
    assert counts["claims"] == sum(turn.counts.hits for turn in turns)
    assert counts["misses"] == sum(turn.counts.misses for turn in turns)
    recent = [each for frame in frames for each in frame["speculation"]["recent"]]
    assert {"search_mail", "read_mail"} <= {each["tool"] for each in recent}
    assert "roof repair" not in json.dumps(frames)


@pytest.mark.real_model
def test_what_a_runtime_did_last_is_shown() -> None:
    frames: list[dict[str, Any]] = []
    page, answered = DemoPage(), []
    with page.served() as (address, token), LocalRuntime.open("nano") as runtime:
        reader = threading.Thread(target=read, args=(address, token, frames))
        reader.start()
        for _ in range(3):
            until(lambda: bool(frames) and not frames[-1]["models"])
            with page.watching(runtime):
                until(lambda: bool(frames[-1]["models"]))
                answered.append(runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=1).id)
    reader.join(30)
    ended = [row["id"] for frame in frames for model in frame["models"] for row in model["ended"]]
    assert ended == [short_id(each) for each in answered]


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


# The command with the demo itself replaced: what is asked and printed, and when.
SCRIPT = """
import sys
from agentrt.cli.main import app
from agentrt.examples.demo.measures import SpeculationCounts
from agentrt.examples.demo import run
from agentrt.examples.demo.background import Waits
from agentrt.examples.demo.comparison import Comparison, Turn

def run_demo(*_, page, **__):
    print("RUNS", type(page).__name__)
    turn = Turn("Hello", "ai Hi!", 1.0, 1.0, 0.0, 1, SpeculationCounts())
    waits = Waits((0.1,), 1, 1.0)
    return run.Result(Comparison((turn,), (turn,), True), waits, waits)

run.run_demo = run_demo
app(["demo", "--page", "--verbose", *(["--json", *sys.argv[1:]] if sys.argv[1:] else [])])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
@pytest.mark.parametrize("closes", ["Enter", "Ctrl-C", "Ctrl-D"])
def test_a_person_opens_the_page_before_it_begins_and_reads_the_result_before_it_ends(
    closes: str, tmp_path: Path
) -> None:
    import pty

    controller, terminal = pty.openpty()
    environment = os.environ | {"COLUMNS": "120", "TERM": "xterm"}
    report = tmp_path / "report.json"
    command = [sys.executable, "-c", SCRIPT, str(report)]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as demo:
        os.close(terminal)
        received = b""  # a read may end within a character
        for question in ("press Enter to begin", "Press Enter or Ctrl-C to close it"):
            while question.encode() not in received:
                received += os.read(controller, 65536)
            if question == "press Enter to begin" or closes == "Enter":
                os.write(controller, b"\n")
            elif closes == "Ctrl-D":
                os.write(controller, b"\x04")
            else:
                demo.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the end of a terminal is an error on Linux
            while True:
                if closes == "Ctrl-C" and not select.select([controller], [], [], 10)[0]:
                    # Python sees a signal that comes right before it reads only with the next one, or a key.
                    demo.send_signal(signal.SIGINT)
                elif more := os.read(controller, 65536):
                    received += more
                else:
                    break
        assert demo.wait(60) == 0
    assert report.exists(), "what comes behind the page is done, too"
    os.close(controller)
    shown = received.decode()
    order = [
        "live page: http://127.0.0.1:",
        "to begin",
        "RUNS DemoPage",
        "differences in what",
        "to close it",
    ]
    assert [shown.index(each) for each in order] == sorted(shown.index(each) for each in order)


def test_without_a_person_nothing_is_asked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "token for this run: agentrt-" in done.stdout
    assert "Enter" not in done.stdout
