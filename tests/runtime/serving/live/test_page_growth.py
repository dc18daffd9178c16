"""A live page that is open for days, or shows much at once, stays small."""

from __future__ import annotations

from typing import Any

from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.live.page_driver import apply, frame, open_live

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
