"""The live page in a real browser, headless."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import agentrt.runtime.live
from agentrt.reports.recording import RecordedAnswer, RecordedCall, Recording
from agentrt.runtime import LocalRuntime
from tests.runtime.http.serving import Running, until
from tests.runtime.live.conftest import HOSTILE, OTHER
from tests.runtime.server.conftest import HELLO

TOKEN = "o" * 20
FILE = (Path(agentrt.runtime.live.__file__).parent / "page" / "index.html").as_uri()


@contextmanager
def asking(server: Running, headers: dict[str, str] = OTHER, **more: Any) -> Iterator[None]:
    """Answers of nano, one after the other."""
    stop = threading.Event()
    body = {"model": "nano", "messages": HELLO, "max_tokens": 100, "service_tier": "flex"} | more

    def ask() -> None:
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
            while not stop.is_set():
                http.post("/v1/chat/completions", json=body).raise_for_status()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def wait(page: Any, expression: str, argument: Any = None) -> None:
    """Wait until an expression is true; Playwright's own wait needs a policy that allows ``eval``."""
    until(lambda: page.evaluate(expression, argument))


def open_live(page: Any, server: Running) -> None:
    """Open the page, and connect with the owner's token."""
    page.goto(server.url)
    page.get_by_label("Token of the server's owner").fill(TOKEN)
    page.keyboard.press("Enter")
    wait(page, "live.state.t !== null")


def frame(**model: Any) -> dict[str, Any]:
    """A frame of one model as a server sends it."""
    whole = {"name": "m", "status": "loaded", "counts": {}, "xpus": ["prefill", "decode"]}
    return {"n": 1, "t": 1.0, "models": [whole | model]}


def apply(page: Any, *frames: dict[str, Any]) -> None:
    """Show frames that no server has sent."""
    page.evaluate(
        "frames => { live.stream.close(); for (const each of frames) live.receive(JSON.stringify(each)) }",
        list(frames),
    )


def test_it_shows_what_runs(page: Any, server: Running) -> None:
    open_live(page, server)
    with asking(server):
        wait(page, "live.state.ended.length > 0 && live.state.rate > 0")
        wait(page, "document.querySelector('#ended tbody').innerText.includes('proactive')")
        wait(page, "document.querySelector('#lanes tbody').innerText.includes('nano: decode')")
    assert page.inner_text("#status") == "Live"
    assert page.inner_text("#models tbody").startswith("nano\tloaded")
    assert HOSTILE in page.inner_text("#ended tbody"), "the name of the app, as text"
    assert page.evaluate("live.drawn") > 0


def test_the_token_is_in_no_address(page: Any, server: Running) -> None:
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    open_live(page, server)
    page.reload()
    wait(page, "live.state.t !== null")  # kept for the tab
    assert not [address for address in [*addresses, page.url] if TOKEN in address]
    assert {address.rsplit("/", 1)[0] for address in addresses} == {server.url, f"{server.url}/live"}
    assert page.input_value("#token") == ""
    assert page.evaluate("localStorage.length") == 0
    assert page.context.cookies() == []


def test_a_token_that_is_not_the_owners(page: Any, server: Running) -> None:
    page.goto(server.url)
    for token, said in (
        ("x" * 20, "does not know this token"),
        ("\N{RIGHTWARDS ARROW} x", "does not know this token"),
        ("n" * 20, "not the owner's"),
    ):
        page.get_by_label("Token of the server's owner").fill(token)
        page.get_by_role("button", name="Connect").click()
        wait(page, "said => document.getElementById('status').innerText.includes(said)", said)
        assert page.evaluate("sessionStorage.getItem('agentrt token')") is None
    page.get_by_label("Token of the server's owner").fill(TOKEN)
    page.get_by_role("button", name="Connect").click()
    wait(page, "live.state.t !== null")
    assert page.locator("#access").is_hidden()


def test_a_server_that_falls_silent_is_asked_again(page: Any, server: Running) -> None:
    open_live(page, server)
    # From the next frame on nothing is heard, as after a sleep of the computer, and twenty seconds are none.
    page.evaluate(
        """() => {
            const { setTimeout } = window;
            window.setTimeout = (act, ms) => setTimeout(act, ms === MOST_SILENT_MS ? 0 : ms);
            ReadableStreamDefaultReader.prototype.read = function read() {
                return this.closed.then(() => ({ done: true }));
            };
            live.stream.open = () => { window.again = true; };
        }"""
    )
    assert page.inner_text("#status") == "Live"
    wait(page, "document.getElementById('status').innerText.includes('does not answer')")
    wait(page, "window.again === true")


def test_a_stream_that_has_ended_is_not_ended_again(page: Any, server: Running) -> None:
    open_live(page, server)
    page.evaluate(
        """() => {
            const { setTimeout, clearTimeout } = window;
            window.waiting = new Set();
            window.setTimeout = (act, ms) => {
                const timer = setTimeout(act, ms);
                if (ms === MOST_SILENT_MS) window.waiting.add(timer);
                return timer;
            };
            window.clearTimeout = (timer) => { window.waiting.delete(timer); clearTimeout(timer); };
        }"""
    )
    wait(page, "window.waiting.size === 1")
    page.evaluate("live.stream.close()")
    wait(page, "window.waiting.size === 0")


def test_without_tokens_it_asks_for_none(page: Any, start: Callable[..., Running]) -> None:
    server = start()
    page.goto(server.url)
    wait(page, "live.state.t !== null")
    assert page.locator("#access").is_hidden()


def test_names_are_text_whatever_they_are(page: Any, server: Running) -> None:
    names = [HOSTILE, "<script>window.ran=1</script>", "javascript:window.ran=1", "\u202e\x00'\"`", "</td>"]
    page.goto(server.url)
    for name in names:
        row = {"id": name, "app": name, "context": name, "class": name, "state": name, "outcome": name}
        hostile = frame(
            name=name,
            status=name,
            xpus=[name],
            kernels=[[0, 0, 1, name, 1, 1, name, 1]],
            requests=[row],
            ended=[row],
            answered=[{"tools": [name]}],
            kv={"bytes": 1, "free_bytes": 0, "cached_bytes": 0, "held": [{"app": name, "context": name}]},
        )
        hostile["speculation"] = {"drafts": 1, "recent": [{"tool": name, "what": name}]}
        page.evaluate("document.querySelector('details').open = true")
        apply(page, hostile)
        wait(page, "name => document.querySelector('#requests tbody').textContent.includes(name)", name)
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, main script, main a").count() == 0


def test_no_script_runs_that_is_not_the_servers(page: Any, server: Running) -> None:
    page.goto(server.url)
    # Behind a timer: what the driver itself evaluates is exempt from the policy.
    tried, refused = page.evaluate(
        """() => new Promise((done) => setTimeout(async () => {
            const ran = "window.ran = 1";
            const script = () => document.createElement("script");
            const acts = [
                () => { document.body.innerHTML = "<img src=x onerror='window.ran=1'>"; },
                () => document.body.append(Object.assign(script(), { text: ran })),
                () => document.body.append(Object.assign(script(), { src: "data:text/javascript," + ran })),
                () => (0, eval)(ran),
                () => new Function(ran)(),
                () => import("data:text/javascript," + ran),
                () => fetch("https://example.com/"),
            ];
            let refused = 0;
            for (const act of acts) {
                try { await act(); } catch { refused += 1; }
            }
            done([acts.length, refused]);
        }))"""
    )
    assert tried == refused
    assert page.evaluate("window.ran") is None


def test_malformed_frames_do_no_harm(page: Any, server: Running) -> None:
    page.goto(server.url)
    page.evaluate("live.stream.close()")
    broken = (
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"models": 1}',
        '{"models": [null]}',
        '{"models": [{"kernels": [1, null, []]}]}',
    )
    for text in (*broken, '{"t": "x", "models": [{"requests": [null], "counts": 3, "kv": {}}]}'):
        page.evaluate("text => live.receive(text)", text)
    apply(page, frame(running=7))
    wait(page, "document.querySelector('#models tbody').innerText.includes('7')")


# Half a day of frames, each with kernels, a request and a tool with a name of its own.
HALF_A_DAY = """async () => {
    const { state } = live;
    const [step, rounds] = [5.4, 8000];
    for (let n = 0; n < rounds; n += 1) {
        const [t, id] = [state.t + step, `gen_${n}`];
        const bar = (k) => [1, t - step + k / 8, 0.1, 1, 0, 1, id, 0];
        const kernels = Array.from({ length: 40 }, (_, k) => bar(k));
        const ended = [{ id, app: `app ${n}`, outcome: 'stop' }];
        const requests = [{ id, app: `app ${n}`, state: 'decode', age_s: 1, tokens: n }];
        const answered = [{ tools: [`tool ${n}`] }];
        const models = [{ name: 'm', xpus: ['p', 'd'], kernels, ended, answered, requests, counts: {} }];
        live.receive(JSON.stringify({ n: state.n + 1, t, models }));
        if (n % 20 === 0) live.timeline.draw(state, t);
        if (n % 100 === 0) live.tables.show(state, t, 10);
    }
}"""
KEPT = """() => {
    const { state } = live;
    const lanes = [...state.lanes.values()].reduce((sum, lane) => sum + lane.bars.length, 0);
    return [lanes, state.ended.length, state.tools.size, state.rates.length, live.recorder.characters,
            live.recorder.frames.length, document.querySelectorAll('*').length];
}"""


def test_a_page_that_is_open_for_days_does_not_grow(page: Any, server: Running) -> None:
    page.goto(server.url)
    apply(page, frame())
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    days = []
    for _ in range(3):
        page.evaluate(HALF_A_DAY)
        session.send("HeapProfiler.collectGarbage")
        heap = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        days.append((*page.evaluate(KEPT), heap["JSHeapUsedSize"]))
    for lanes, ended, tools, rates, characters, frames, nodes, _ in days:
        assert lanes <= 4000
        assert (ended, tools, rates) == (12, 51, 600)
        assert characters <= 16 * 2**20
        assert frames < 20_000
        assert nodes == days[0][-2], "no more nodes than before"
    # The recording is full after the first day.
    assert days[2][-1] <= days[1][-1] + 2**20


def test_a_page_that_shows_much_at_once_keeps_little(page: Any, server: Running) -> None:
    page.goto(server.url)
    apply(page, frame())
    page.evaluate(
        """() => {
            for (let n = 0; n < 800; n += 1) {
                const t = live.state.t + 0.2;
                const models = Array.from({ length: 30 }, (_, m) => ({
                    name: `model ${m}`, xpus: ['d'], counts: {},
                    kernels: Array.from({ length: 100 }, (_, k) => [0, t + k / 500, 0.002, 1, 0, 1, 'g', 0]),
                }));
                live.receive(JSON.stringify({ n: live.state.n + 1, t, models }));
            }
        }"""
    )
    lanes = page.evaluate("[...live.state.lanes.values()].map((lane) => lane.bars.length)")
    assert len(lanes) == 16
    assert max(lanes) <= 21_000


def test_keys_reach_everything_and_everything_has_a_name(page: Any, server: Running) -> None:
    open_live(page, server)
    apply(page, frame(kernels=[[1, 0.5, 0.1, 1, 1, 1, "gen_1", 0]]))
    page.evaluate("document.body.focus()")
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    for control in ("A", "pause", "save", "file", "theme", "zoom-in", "zoom-out", "SUMMARY"):
        assert control in reached
    page.focus("#pause")
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="Go on").get_attribute("aria-pressed") == "true"
    page.focus("#zoom-in")
    page.keyboard.press("Space")
    assert page.inner_text("#window") == "5 seconds"
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "textbox", "combobox", "image", "table", "region", "slider", "link", "heading"}
    shown = [node for node in tree if not node["ignored"] and node["role"]["value"] in roles]
    assert len(shown) > 20
    assert [node["role"]["value"] for node in shown if not node.get("name", {}).get("value")] == []
    heads = [node for node in tree if node.get("role", {}).get("value") == "columnheader"]
    assert len(heads) > 20
    status = page.locator("#status")
    assert status.get_attribute("role") == "status"
    assert page.locator("[aria-live=assertive]").count() == 0


CONTRASTS = """() => {
    const style = getComputedStyle(document.documentElement);
    const light = (name) => {
        const hex = style.getPropertyValue(name).trim().slice(1);
        const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
            .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const contrast = (one, other) => {
        const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
        return (high + 0.05) / (low + 0.05);
    };
    const grounds = ['--ground', '--panel'];
    return {
        ground: style.getPropertyValue('--ground').trim(),
        text: Math.min(...grounds.flatMap((g) => [contrast('--text', g), contrast('--quiet', g)])),
        marks: Math.min(...grounds.flatMap((g) => [contrast('--reactive', g), contrast('--proactive', g)])),
    };
}"""


def test_dark_and_light(page: Any, server: Running) -> None:
    page.goto(server.url)
    grounds = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(CONTRASTS)
        grounds[scheme] = found["ground"]
        assert found["text"] >= 4.5
        assert found["marks"] >= 3
    assert grounds["light"] != grounds["dark"]
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(CONTRASTS)["ground"] == grounds["light"], "also where the system is dark"
    page.emulate_media(color_scheme="light")
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate(CONTRASTS)["ground"] == grounds["dark"]


NARROW = """() => {
    const whole = (cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length < 2;
    };
    const broken = [...document.querySelectorAll("td:not(.name)")].filter((cell) => !whole(cell));
    return [document.documentElement.scrollWidth, broken.map((cell) => cell.innerText)];
}"""


@pytest.mark.parametrize("width", [320, 360, 700, 1200])
def test_any_width_and_long_names(page: Any, server: Running, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(server.url)
    row = {
        "id": "gen_01234567",
        "app": "a" * 64,
        "context": "ctx_01234567",
        "class": "proactive",
        "position": 1,
    }
    row |= {"state": "prefill", "promoted": True, "first_token_s": 0.2, "age_s": 2.5, "outcome": "cancelled"}
    kv = {"bytes": 2**30, "free_bytes": 2**29, "cached_bytes": 0, "held": [row | {"bytes": 2**28}]}
    long = {"requests": [row], "ended": [row], "answered": [{"tools": ["t" * 64]}], "kv": kv}
    page.evaluate("document.querySelector('details').open = true")
    apply(page, frame(name="m" * 100, kernels=[[1, 0.5, 0.1, 1, 1, 1, "gen_01234567", 2]], **long))
    wait(page, "document.querySelector('#requests tbody').innerText.includes('promoted')")
    assert page.evaluate(NARROW) == [width, []]


def replayed(page: Any, path: Path) -> None:
    """Open a recording in a page that no server has sent."""
    page.goto(FILE)
    page.set_input_files("#file", path)
    wait(page, "live.player !== null")
    page.evaluate("live.player.playing = false; live.seek(live.player.duration)")


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


def test_a_hostile_recording_runs_no_script_without_a_server(page: Any, tmp_path: Path) -> None:
    row = {"id": HOSTILE, "app": HOSTILE, "class": HOSTILE, "state": HOSTILE, "outcome": HOSTILE}
    model = {"name": HOSTILE, "xpus": [HOSTILE], "requests": [row], "ended": [row]}
    file = tmp_path / "<img src=x onerror=window.ran=1>.json"
    file.write_text(json.dumps({"agentrt_live": 1, "frames": [frame(**model), frame(**model) | {"t": 2.0}]}))
    replayed(page, file)
    wait(page, "name => document.querySelector('#requests tbody').innerText.includes(name)", HOSTILE)
    # Behind a timer: what the driver itself evaluates is exempt from the policy.
    refused = page.evaluate(
        """() => new Promise((done) => setTimeout(() => {
            try { document.body.innerHTML = "<img src=x onerror='window.ran=1'>"; } catch { done(true); }
            done(false);
        }))"""
    )
    assert refused
    assert page.evaluate("window.ran") is None


def test_keys_leave_a_replay(page: Any, server: Running, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"agentrt_live": 1, "frames": [frame(), frame() | {"t": 9.0}]}))
    open_live(page, server)
    page.set_input_files("#file", file)
    wait(page, "document.activeElement.id === 'play'")
    page.focus("#leave")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "file"
    wait(page, "live.state.t !== null")


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


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"frames": []}', '{"frames": [3]}', '{"turns": 5}', "null"]
)
def test_other_files_are_refused(page: Any, tmp_path: Path, content: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    page.goto(FILE)
    page.set_input_files("#file", file)
    wait(page, "document.getElementById('status').innerText.includes('cannot be replayed')")
    assert re.search(
        "other.json cannot be replayed: it|other.json .* there is nothing", page.inner_text("#status")
    )


def test_it_connects_again_when_the_server_is_back(page: Any, server: Running) -> None:
    refused = [503]

    def answer(route: Any) -> None:
        if refused:
            route.fulfill(status=refused.pop(), body="no")
        else:
            route.continue_()

    page.route("**/live/events", answer)
    page.goto(server.url)
    wait(page, "document.getElementById('status').innerText.includes('Trying again')")
    wait(page, "!document.getElementById('access').hidden")
    assert refused == []
