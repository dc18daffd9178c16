"""Recordings that the live page saves and replays."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentrt.reports.recording import RecordedAnswer, RecordedCall, Recording
from agentrt.runtime import LocalRuntime
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.live.conftest import HOSTILE
from tests.runtime.serving.live.page_driver import FILE, asking, frame, open_live, replayed, wait
from tests.runtime.serving.server.conftest import HELLO


def test_a_saved_run_replays_without_a_server(page: Any, server: Running, tmp_path: Path) -> None:
    open_live(page, server)
    with asking(server):
        wait(page, "live.state.ended.length > 1")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save recording").click()
    file = tmp_path / "run.json"
    download.value.save_as(file)
    saved = json.loads(file.read_text())
    assert saved["agentrt_live"] == 1
    replayed(page, file)
    ended = [each["id"] for one in saved["frames"] for each in one["models"][0]["ended"]]
    shown = page.evaluate("live.state.ended.map((each) => each.id)")
    assert shown == ended[::-1][:12]
    wait(page, "id => document.querySelector('#ended tbody').innerText.includes(id)", ended[-1])
    assert page.inner_text("#status") == "Replaying run.json"
    page.evaluate("live.seek(0)")
    assert page.evaluate("live.state.ended.length") == 0
    page.focus("#play")
    page.keyboard.press("Space")
    wait(page, "live.player.t > 0")


def recorded(folder: Path, *frames: dict[str, Any], version: int = 1) -> Path:
    """A recording of these frames."""
    file = folder / "run.json"
    file.write_text(json.dumps({"agentrt_live": version, "frames": frames}))
    return file


def test_pause_stops_a_replay_and_keys_leave_it(page: Any, server: Running, tmp_path: Path) -> None:
    open_live(page, server)
    page.set_input_files("#file", recorded(tmp_path, frame(), frame() | {"t": 9000.0}))
    wait(page, "document.activeElement.id === 'play' && live.player.t > 0")
    pause = page.locator("#pause")
    pause.click()
    assert page.evaluate("live.player.playing") is False
    wait(page, "document.getElementById('play').textContent === 'Play'")
    assert (pause.inner_text(), pause.get_attribute("aria-pressed")) == ("Go on", "true")
    page.evaluate("live.seek(5000)")
    assert page.evaluate("live.now(0)") == 5000, "what is shown follows a seek"
    pause.click()
    wait(page, "live.player.t > 5000")
    assert pause.inner_text() == "Pause"
    pause.click()
    page.focus("#leave")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "file"
    wait(page, "live.state.t !== null")
    assert (pause.inner_text(), pause.get_attribute("aria-pressed")) == ("Pause", "false")


def test_a_trace_of_kernels_replays(page: Any, runtime: LocalRuntime, tmp_path: Path) -> None:
    with runtime.record_trace() as trace:
        generation = runtime.generate(HELLO, max_tokens=20, app=HOSTILE)
    file = tmp_path / "trace.json"
    trace.write_chrome(file)
    replayed(page, file)
    wait(page, "id => document.querySelector('#ended tbody').innerText.includes(id)", generation.id[:12])
    assert HOSTILE in page.inner_text("#ended tbody")
    assert page.evaluate("[...live.state.lanes.values()][0].bars.length") == len(trace.kernels)
    # The prompt has given the first one.
    assert page.evaluate("live.state.sum('sampled_tokens')") == generation.usage.completion_tokens - 1


def kernel(ts: float, dur: float = 1e5, name: str = "decode") -> dict[str, Any]:
    """An event of a trace, with times in microseconds."""
    return {"ph": "X", "tid": 0, "ts": ts, "dur": dur, "name": f"1 {name}", "cat": "reactive", "args": {}}


def write_trace(file: Path, *events: dict[str, Any]) -> Path:
    named = {"ph": "M", "name": "thread_name", "tid": 0, "args": {"name": "decode"}}
    file.write_text(json.dumps({"traceEvents": [named, *events]}))
    return file


@pytest.mark.parametrize("clock", [0.0, 9e11, 1.76e15])
def test_the_time_of_a_trace_begins_with_its_first_event(page: Any, tmp_path: Path, clock: float) -> None:
    asked = {"id": "gen_1", "name": "request", "args": {"app": "mail"}}
    first, last = ({"ph": ph, "ts": clock + ts, **asked} for ph, ts in (("b", 0), ("e", 7e5)))
    kernels = [kernel(clock + 1e5, name="prefill"), kernel(clock + 4e5)]
    replayed(page, write_trace(tmp_path / "trace.json", first, *kernels, last))
    assert page.evaluate("live.player.duration") == pytest.approx(0.8)
    bars = page.evaluate("[...live.state.lanes.values()][0].bars.map((bar) => [bar.start, bar.end])")
    assert bars == [pytest.approx([0.1, 0.2], abs=1e-6), pytest.approx([0.4, 0.5], abs=1e-6)]
    assert page.evaluate("live.state.ended.map((each) => [each.app, each.total_s])") == [
        ["mail", pytest.approx(0.7)]
    ]
    page.evaluate("live.seek(0.4)")
    assert page.evaluate("live.state.models[0].requests.length") == 1


def test_a_trace_has_as_many_frames_as_it_has_events_however_long_it_is(page: Any, tmp_path: Path) -> None:
    replayed(page, write_trace(tmp_path / "trace.json", kernel(0), kernel(6 * 86400 * 1e6)))
    assert page.evaluate("live.player.frames.length") < 6


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([kernel(0), kernel(1e13)], "it spans 116 days"),
        ([kernel(0, 1e30)], "days, and 7 are the most"),
        ([kernel(0, -1.0)], "ts or dur that are no times"),
        ([kernel(0) | {"ts": "now"}], "ts or dur that are no times"),
    ],
)
def test_traces_with_absurd_times_are_refused(
    page: Any, tmp_path: Path, events: list[dict[str, Any]], said: str
) -> None:
    page.goto(FILE)
    page.set_input_files("#file", write_trace(tmp_path / "trace.json", *events))
    wait(page, "said => document.getElementById('status').innerText.includes(said)", said)


def test_kernels_of_a_replay_that_stands_still_can_be_opened(page: Any, tmp_path: Path) -> None:
    replayed(page, write_trace(tmp_path / "trace.json", kernel(0), kernel(3e5)))
    wait(page, "document.querySelector('#lanes tbody').innerText.includes('trace: decode')")
    page.click("summary")
    wait(page, "document.querySelector('#kernels').innerText.includes('100.00 ms')")


def test_shares_after_a_seek_are_of_what_was_replayed(page: Any, tmp_path: Path) -> None:
    replayed(page, write_trace(tmp_path / "trace.json", kernel(0, 1e6), kernel(19.5e6, 5e5)))
    page.evaluate("live.seek(2)")
    wait(page, "document.querySelector('#lanes caption').innerText.includes(' over 2.0 s:')")
    assert page.inner_text("#lanes tbody").split("\t")[1:4] == ["50 %", "0 %", "50 %"]
    page.evaluate("live.seek(12)")
    wait(page, "document.querySelector('#lanes caption').innerText === 'Use of each XPU over the 10 s shown'")


def test_a_recorded_run_of_an_agent_replays(page: Any, tmp_path: Path) -> None:
    call = RecordedCall(id="1", name="look", arguments={}, seconds=0.5)
    messages = ({"role": "user", "content": "private words"},)
    answer = {"role": "assistant", "content": "private, too"}
    turns = [
        RecordedAnswer(messages=messages, answer=answer, calls=(call,), seconds=1.0),
        RecordedAnswer(messages=messages, answer=answer, seconds=2.0),
    ]
    file = tmp_path / "run.json"
    Recording(turns=tuple(turns)).save(file)
    replayed(page, file)
    bars = page.evaluate("[...live.state.lanes.values()].map((lane) => [lane.name, lane.bars])")
    assert [(name, [(bar["start"], bar["end"]) for bar in own]) for name, own in bars] == [
        ("recorded run: model", [(0, 1), (1.5, 3.5)]),
        ("recorded run: tools", [(1, 1.5)]),
    ]
    assert "private" not in page.inner_text("body")


def test_frames_in_any_order_replay_in_that_of_their_times(page: Any, tmp_path: Path) -> None:
    frames = [frame(running=t) | {"n": t, "t": float(t)} for t in (3, 2, 1)]
    replayed(page, recorded(tmp_path, *frames))
    assert page.evaluate("live.player.duration") == 2
    assert page.evaluate("live.state.models[0].running") == 3


def test_only_what_was_seen_is_saved(page: Any, server: Running, tmp_path: Path) -> None:
    save = page.get_by_role("button", name="Save recording")
    page.goto(server.url)
    assert save.is_disabled(), "nothing has been seen"
    open_live(page, server)
    wait(page, "!document.getElementById('save').disabled")
    page.set_input_files("#file", recorded(tmp_path, frame(), frame() | {"t": 9.0}))
    wait(page, "document.getElementById('save').disabled")
    page.get_by_role("button", name="Back to live").click()
    wait(page, "!document.getElementById('save').disabled")
    # The time of another server goes back. In one step: the next frame of this one may be on its way, or the
    # first one behind the replay.
    kept = page.evaluate(
        "frame => { live.stream.close(); live.receive(JSON.stringify(frame)); return live.recorder.frames }",
        frame() | {"t": 0.5},
    )
    assert [json.loads(each)["t"] for each in kept] == [0.5]


def test_other_files_are_refused(page: Any, tmp_path: Path) -> None:
    page.goto(FILE)
    page.set_input_files("#file", recorded(tmp_path, frame(), version=2))
    wait(page, "document.getElementById('status').innerText.includes('of version 2')")
    for number, content in enumerate(
        ["", "{", "[]", '{"frames": []}', '{"frames": [3]}', '{"turns": 5}', "null"]
    ):
        file = tmp_path / f"other{number}.json"
        file.write_text(content)
        page.set_input_files("#file", file)
        wait(page, "name => document.getElementById('status').innerText.includes(name)", file.name)
        said = page.inner_text("#status")
        assert re.search("cannot be replayed: it|cannot be replayed.* there is nothing", said), content
