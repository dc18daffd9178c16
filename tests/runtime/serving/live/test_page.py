"""The live page in a real browser, headless: what it shows, of whom, with which keys, and for how long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.runtime.serving.live import feed
from tests.patience import until
from tests.runtime.serving.http.serving import Running, Start
from tests.runtime.serving.live.conftest import HOSTILE
from tests.runtime.serving.live.page_driver import TOKEN, apply, asking, frame, open_live, replayed, wait


def test_it_shows_what_runs(page: Any, server: Running) -> None:
    open_live(page, server)
    with asking(server):
        wait(page, "live.state.ended.length > 0 && live.state.rate > 0")
        wait(page, "document.querySelector('#ended tbody').innerText.includes('proactive')")
        wait(page, "document.querySelector('#lanes tbody').innerText.includes('nano: decode')")
    wait(page, "document.getElementById('status').innerText === 'Live'")
    assert page.locator("#models tbody td").all_inner_texts()[:2] == ["nano", "loaded"]
    assert HOSTILE in page.inner_text("#ended tbody"), "the name of the app, as text"
    assert page.evaluate("live.drawn") > 0


def test_when_a_request_is_served_is_told_only_where_it_is_known(blank: Any) -> None:
    waiting = {"class": "proactive", "state": "waiting", "age_s": 9}
    known = [waiting | {"first_token_s": 0.001}, waiting | {"first_token_s": 2.5}]
    starved = waiting | {"first_token_s": None, "not_known": "reactive requests go first"}
    apply(blank, frame(requests=[*known, starved]))
    wait(blank, "document.querySelectorAll('#requests tbody tr').length === 3")
    assert blank.locator("#requests tbody td:nth-child(5)").all_inner_texts() == [
        "first token in under 0.01 s",
        "first token in 2.50 s",
        "\N{EM DASH} reactive requests go first",
    ]


def test_what_memory_is_held_for_adds_up(page: Any, server: Running) -> None:
    open_live(page, server)
    tool = {"name": "look", "description": "Look", "parameters": {"type": "object", "properties": {}}}
    more = {"tools": [{"type": "function", "function": tool}], "tool_choice": "required"}

    def some_is_held() -> bool:
        held = page.evaluate(
            """() => live.state.models.map(({ kv }) => [
                kv.bytes - kv.free_bytes - kv.cached_bytes,
                kv.held.reduce((sum, row) => sum + row.bytes, 0)])"""
        )
        assert all(whole == rows for whole, rows in held), held
        return bool(held) and all(rows > 0 for _, rows in held)

    with asking(server, **more):
        wait(page, "document.querySelector('#memory tbody').innerText.includes('the next turn')")
        until(some_is_held)


def test_the_bar_of_memory_is_as_long_as_what_is_held(blank: Any) -> None:
    kv = {"bytes": 1000, "free_bytes": 420, "cached_bytes": 250}
    apply(blank, frame(kv=kv))
    wait(blank, "document.querySelector('#memory-bars .cached') !== null")
    whole, *parts = blank.evaluate(
        """() => ['', ' .held', ' .cached'].map(
            (part) => document.querySelector(`#memory-bars .bar${part}`).clientWidth)"""
    )
    assert [part / whole for part in parts] == pytest.approx([0.33, 0.25], abs=0.01)
    apply(blank, frame(kv=kv | {"bytes": 0}))
    wait(blank, "document.querySelector('#memory-bars .held').clientWidth === 0")


def test_the_background_queue_says_what_it_waits_for(blank: Any) -> None:
    job = {"id": "resp_1", "app": "mail", "status": "queued", "position": 2, "position_at_most": 5}
    apply(
        blank,
        frame() | {"background": {"waits_for": None, "unended": 1, "jobs": [job | {"done_s": [3, 61]}]}},
    )
    row = blank.locator("#background tbody tr")
    wait(blank, "document.querySelector('#background tbody').innerText.includes('mail')")
    assert row.inner_text().split("\t") == ["mail", "queued", "2, at most 5", "in 3.00 s to 61 s", "resp_1"]
    waiting = {"waits_for": "on_battery", "unended": 1, "jobs": [job | {"done_s": None}]}
    apply(blank, frame() | {"n": 2, "t": 2.0, "background": waiting})
    wait(blank, "document.querySelector('#background-now').innerText.endsWith('wait for a power supply')")
    assert "not known" in row.inner_text()


def test_counts_say_since_when_they_are(blank: Any) -> None:
    apply(blank, frame(counts={"answered_calls": 7}, answered=[{"tools": ["look"]}]))
    wait(blank, "document.querySelector('#answered tbody').innerText.includes('look')")
    shown = blank.evaluate("document.getElementById('answered').closest('section').innerText").split("\n")
    since, watched = shown.index("Since the server's start"), shown.index("While watched")
    assert since < shown.index("7") < watched < shown.index("look\t1")


def test_an_app_that_ends_many_requests_leaves_room_for_the_others(blank: Any) -> None:
    quiet = [frame(ended=[{"id": f"{app} {n}", "app": app} for n in range(3)]) for app in ("mail", "notes")]
    busy = [frame(ended=[{"id": f"busy {n + k}", "app": "busy"} for k in range(5)]) for n in range(0, 100, 5)]
    apply(blank, *quiet, *busy)
    assert blank.evaluate("live.state.ended.map((each) => each.id)") == [
        *(f"busy {n}" for n in range(99, 93, -1)),
        *(f"{app} {n}" for app in ("notes", "mail") for n in (2, 1, 0)),
    ]


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


def test_a_token_that_is_not_the_owners(blank: Any) -> None:
    for token, said in (
        ("x" * 20, "does not know this token"),
        ("\N{RIGHTWARDS ARROW} x", "does not know this token"),
        ("n" * 20, "not the owner's"),
    ):
        blank.get_by_label("Token of the server's owner").fill(token)
        blank.get_by_role("button", name="Connect").click()
        wait(blank, "said => document.getElementById('status').innerText.includes(said)", said)
        assert blank.evaluate("sessionStorage.getItem('agentrt token')") is None
    blank.get_by_label("Token of the server's owner").fill(TOKEN)
    blank.get_by_role("button", name="Connect").click()
    wait(blank, "live.state.t !== null")
    assert blank.locator("#access").is_hidden()


@pytest.fixture
def lively(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose engine is idle sends a frame at once, not after five seconds."""
    monkeypatch.setattr(feed, "HEARTBEAT_S", 0.0)


def test_a_server_that_falls_silent_is_asked_again(page: Any, lively: None, server: Running) -> None:
    open_live(page, server)
    # From the next frame on nothing is heard, as after a sleep of the computer, and twenty seconds are none.
    before = page.evaluate(
        """() => {
            const { setTimeout } = window;
            window.setTimeout = (act, ms) => setTimeout(act, ms === MOST_SILENT_MS ? 0 : ms);
            ReadableStreamDefaultReader.prototype.read = function read() {
                return this.closed.then(() => ({ done: true }));
            };
            live.stream.open = () => { window.again = true; };
            return document.getElementById('status').innerText;
        }"""
    )
    assert before == "Live"
    wait(page, "document.getElementById('status').innerText.includes('does not answer')")
    wait(page, "window.again === true")


def test_a_stream_that_has_ended_is_not_ended_again(page: Any, lively: None, server: Running) -> None:
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


def test_without_tokens_it_asks_for_none(page: Any, start: Start) -> None:
    server = start()
    page.goto(server.url)
    wait(page, "live.state.t !== null")
    assert page.locator("#access").is_hidden()


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
        hostile["background"] = {"waits_for": name, "jobs": [{"app": name, "id": name, "status": name}]}
        hostile["speculation"] = {"drafts": 1, "recent": [{"tool": name, "what": name}]}
        page.evaluate("document.querySelector('details').open = true")
        apply(page, hostile)
        wait(page, "name => document.querySelector('#requests tbody').textContent.includes(name)", name)
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, main script, main a").count() == 0


def test_no_script_runs_that_is_not_the_servers(blank: Any) -> None:
    # Behind a timer: what the driver itself evaluates is exempt from the policy.
    tried, refused = blank.evaluate(
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
    assert blank.evaluate("window.ran") is None


def test_malformed_frames_do_no_harm(blank: Any) -> None:
    blank.evaluate("live.stream.close()")
    models = ("1", "[null]", '[{"kernels": [1, null, []]}]', '[{"requests": [null], "counts": 3, "kv": {}}]')
    for text in ("", "{", "null", "[]", "{}", *(f'{{"t": "x", "models": {each}}}' for each in models)):
        blank.evaluate("text => live.receive(text)", text)
    apply(blank, frame(running=7))
    wait(blank, "document.querySelector('#models tbody').innerText.includes('7')")


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


def test_a_page_that_is_open_for_days_does_not_grow(blank: Any) -> None:
    apply(blank, frame())
    session = blank.context.new_cdp_session(blank)
    session.send("Performance.enable")
    days = []
    for _ in range(3):
        blank.evaluate(HALF_A_DAY)
        session.send("HeapProfiler.collectGarbage")
        heap = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        days.append((*blank.evaluate(KEPT), heap["JSHeapUsedSize"]))
    for lanes, ended, tools, rates, characters, frames, nodes, _ in days:
        assert lanes <= 4000
        assert (ended, tools, rates) == (12, 51, 600)
        assert characters <= 16 * 2**20
        assert frames < 20_000
        assert nodes == days[0][-2], "no more nodes than before"
    # The recording is full after the first day.
    assert days[2][-1] <= days[1][-1] + 2**20


def test_a_page_that_shows_much_at_once_keeps_little(blank: Any) -> None:
    apply(blank, frame())
    blank.evaluate(
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
    lanes = blank.evaluate("[...live.state.lanes.values()].map((lane) => lane.bars.length)")
    assert len(lanes) == 16
    assert max(lanes) <= 21_000


# Draw the page as it is so many seconds after the newest frame came.
DRAW_LATER = """(seconds) => {
    live.draw = () => undefined;
    live.drawnTables = -Infinity;
    LivePage.prototype.draw.call(live, live.clock.heard + 1000 * seconds);
    return ["status", "age"].map((id) => document.getElementById(id).textContent);
}"""
SILENT = "The server has sent nothing for too long"


def said(page: Any, seconds: float) -> list[str]:
    """What the page says of itself, so many seconds after its newest frame."""
    words: list[str] = page.evaluate(DRAW_LATER, seconds)
    return words


def test_a_busy_server_that_stalls(page: Any, server: Running) -> None:
    open_live(page, server)
    apply(page, frame(running=1), frame(running=1) | {"t": 1.2, "n": 2})
    assert said(page, 1.5) == ["Live", ""]
    assert said(page, 2.5) == [SILENT, "figures of 2 s ago"]
    assert said(page, 130) == [SILENT, "figures of 2 min ago"]
    # One that many pages read sends fewer frames.
    apply(page, frame(running=1) | {"t": 4.2, "n": 3})
    assert said(page, 4.5) == ["Live", ""]
    assert said(page, 5.5) == [SILENT, "figures of 5 s ago"]


def test_an_idle_server_sends_a_frame_every_five_seconds(page: Any, server: Running) -> None:
    open_live(page, server)
    apply(page, frame(), frame() | {"t": 1.2, "n": 2})
    assert said(page, 6.5) == ["Live", ""]
    assert said(page, 7.5) == [SILENT, "figures of 7 s ago"]
    page.evaluate("live.say('lost')")
    assert said(page, 8.5) == ["The server does not answer. Trying again", "figures of 8 s ago"]


def test_a_pause_is_not_live(page: Any, server: Running) -> None:
    open_live(page, server)
    apply(page, frame())
    page.evaluate("live.pause(true)")
    assert said(page, 3) == ["Paused", "figures of 3 s ago"]
    page.evaluate("live.pause(false)")
    assert said(page, 3) == ["Live", ""]


def test_the_last_state_stays_when_no_model_is_left(page: Any, server: Running) -> None:
    open_live(page, server)
    apply(page, frame(counts={"finished": 3}, kernels=[[1, 0.5, 0.5, 1, 1, 1, "gen_1", 0]]))
    apply(page, {"n": 2, "t": 6.0, "models": []}, {"n": 3, "t": 500.0, "models": []})
    assert said(page, 2) == ["No model is there any more: these are the last figures", "figures of 8 min ago"]
    assert page.locator("#models tbody td").all_inner_texts()[:2] == ["m", "loaded"]
    assert "Finished\n3" in page.inner_text("main")
    assert page.evaluate("live.now(0)") == 1
    assert page.evaluate("[...live.state.lanes.values()][0].bars.length") == 1
    apply(page, frame(counts={"finished": 0}) | {"n": 4, "t": 501.0})
    assert said(page, 2) == ["Live", ""]
