"""The timeline of the live page: what is drawn, and how seldom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.serving.http.serving import Running, until
from tests.runtime.serving.live.page_driver import apply, frame

# The kinds of bars at these times, read from the pixels of the timeline: 0 none, 1 proactive, 2 reactive.
SHOWN = """([lane, times]) => {
    const { timeline } = live;
    return times.map((t) => {
        const x = (t - timeline.origin) * timeline.scale;
        const tile = Math.floor(x / TILE_PX);
        const canvas = [...timeline.film.children].find((each) => each.tile === tile);
        const column = Math.min(TILE_PX - 1, x - tile * TILE_PX) * devicePixelRatio;
        const [top, half] = [lane * LANE_PX, (LANE_PX - 16) / 2];
        const pixel = (y) => canvas.getContext("2d").getImageData(column, y * devicePixelRatio, 1, 1).data;
        const drawn = (y) => pixel(y)[3] > 0;
        return drawn(top + LANE_PX - 4) + drawn(top + LANE_PX - 4 - half);
    });
}"""
# Draw as the page does, at times of the server that do not depend on the clock, and count the drawn tiles.
DRAW = """(times) => {
    const { timeline, state } = live;
    let drawn = 0;
    timeline.drawTile = (tile) => { drawn += 1; Timeline.prototype.drawTile.call(timeline, tile); };
    for (const t of times) timeline.draw(state, t);
    delete timeline.drawTile;
    return drawn;
}"""
PREFILL, DECODE = 0, 1


def bar(start: float, seconds: float, xpu: int = DECODE, *, reactive: bool = False) -> list[Any]:
    return [xpu, start, seconds, 1, int(reactive), 1, "gen_1", 0]


def at(t: float, *bars: list[Any]) -> dict[str, Any]:
    return frame(kernels=bars) | {"t": t, "n": round(5 * t)}


LAID_OUT = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture
def drawing(page: Any, server: Running) -> Any:
    """A page that shows 10 s and draws when it is told to."""
    page.goto(server.url)
    page.evaluate("live.stream.close()")
    page.evaluate(LAID_OUT)
    page.evaluate("live.draw = () => undefined")
    return page


def shown(page: Any, times: list[float], lane: int = 0) -> list[int]:
    kinds: list[int] = page.evaluate(SHOWN, [lane, times])
    return kinds


def test_bars_are_where_they_were(drawing: Any) -> None:
    apply(drawing, at(100, bar(95, 1), bar(97, 1, PREFILL, reactive=True), bar(98, 0.5, reactive=True)))
    drawing.evaluate(DRAW, [100])
    times = [94.5, 95.5, 96.5, 97.5, 98.25, 98.75]
    assert shown(drawing, times) == [0, 1, 0, 0, 2, 0]
    assert shown(drawing, times, lane=1) == [0, 0, 0, 2, 0, 0]
    assert drawing.locator(".names").inner_text().split("\n") == ["m: decode", "m: prefill"]
    film = drawing.evaluate(
        "live.timeline.film.getBoundingClientRect().left + (95 - live.timeline.origin) *"
        " live.timeline.scale - live.timeline.film.parentElement.getBoundingClientRect().left"
    )
    width = drawing.evaluate("live.timeline.width")
    assert film == pytest.approx(width / 2, abs=1), "5 s ago is in the middle"


def test_a_bar_that_came_late_is_drawn_into_what_has_passed(drawing: Any) -> None:
    apply(drawing, at(100, bar(99, 0.1)))
    drawing.evaluate(DRAW, [100, 100.1])
    apply(drawing, at(100.2, bar(92, 6, reactive=True)))
    drawing.evaluate(DRAW, [100.2])
    assert shown(drawing, [91.5, 92.5, 94, 96, 97.5, 98.5, 99.05]) == [0, 2, 2, 2, 2, 0, 1]


def test_time_that_goes_back_and_another_server(drawing: Any) -> None:
    apply(drawing, at(100, bar(50, 1), bar(99, 1)))
    drawing.evaluate(DRAW, [100, 99.95, 52])
    assert shown(drawing, [50.5, 51.5]) == [1, 0]
    drawing.evaluate(DRAW, [100])
    assert shown(drawing, [98.5, 99.5]) == [0, 1]
    apply(drawing, at(3, bar(1, 1, reactive=True)))
    drawing.evaluate(DRAW, [3])
    assert shown(drawing, [0.5, 1.5, 2.5]) == [0, 2, 0]


def test_a_day_goes_by(drawing: Any) -> None:
    for t in (100, 3700, 86500, 86503):
        apply(drawing, at(t, bar(t - 1, 0.5)))
        drawing.evaluate(DRAW, [t])
        assert shown(drawing, [t - 1.2, t - 0.8, t - 0.2]) == [0, 1, 0]
        assert drawing.evaluate("document.querySelectorAll('.film canvas').length") < 6


def test_what_has_been_drawn_is_only_moved(drawing: Any) -> None:
    """A second of 60 pictures and 5 frames draws each tile that a frame touches once, and one that comes."""
    apply(drawing, at(100, *(bar(90 + each / 50, 0.01) for each in range(500))))
    drawing.evaluate(DRAW, [100])
    drawing.evaluate(
        LAID_OUT
    )  # the names of the lanes may change the page's width, and then all is drawn anew
    drawing.evaluate(DRAW, [100])
    begun = drawing.evaluate("live.timeline.film.style.transform")
    assert drawing.evaluate(DRAW, [100 + each / 60 for each in range(60)]) <= 1
    assert drawing.evaluate("live.timeline.film.style.transform") != begun
    for each in range(5):
        t = 101 + each / 5
        apply(drawing, at(t, bar(t - 0.15, 0.01), bar(t - 0.05, 0.01)))
        assert drawing.evaluate(DRAW, [t + picture / 60 for picture in range(12)]) <= 3


def test_a_pause_stops_what_is_shown_and_not_how(drawing: Any) -> None:
    apply(drawing, at(99) | {"n": 499}, at(100, bar(99, 0.5)))
    drawing.evaluate("live.pause(true); live.pausedAt = 100; LivePage.prototype.draw.call(live, 0)")
    apply(drawing, at(100.2, bar(100, 0.1)))
    for _ in range(3):
        drawing.click("#zoom-in")
    drawing.evaluate("LivePage.prototype.draw.call(live, 1000)")
    assert drawing.inner_text("#window") == "1 second"
    assert shown(drawing, [99.25, 99.75]) == [1, 0]
    assert drawing.inner_text("#lanes tbody").split("\t")[1:4] == ["0 %", "50 %", "50 %"]


def test_kernels_opened_in_a_pause_are_those_before_it(drawing: Any) -> None:
    apply(drawing, at(100, bar(99, 0.25)))
    drawing.evaluate("live.now = () => 100; live.pause(true)")
    # More than the page remembers.
    apply(drawing, *(at(100 + t, bar(99.5 + t, 0.5)) for t in range(1, 300)))
    drawing.click("summary")
    drawing.evaluate(LAID_OUT)
    assert drawing.locator("#kernels tbody td:nth-child(4)").all_inner_texts() == ["250.00 ms"]
    drawing.evaluate("live.now = () => 400; live.pause(false); LivePage.prototype.draw.call(live, 1000)")
    assert drawing.locator("#kernels tbody td:nth-child(4)").all_inner_texts() == ["500.00 ms"] * 10


def test_shares_are_of_the_time_that_was_seen(drawing: Any) -> None:
    def use(now: float) -> list[str]:
        drawing.evaluate("now => live.tables.showUse(live.state, now, 10)", now)
        return [drawing.inner_text("#lanes caption"), *drawing.inner_text("#lanes tbody").split("\t")[1:]]

    part = "Use of each XPU over {} s: no more of the 10 s shown has been seen".format
    apply(drawing, at(100, bar(99, 0.5)) | {"n": 1})
    assert use(100) == ["Use of each XPU: nothing of the 10 s shown has been seen", *["\N{EM DASH}"] * 4], (
        "what was before the first frame is not known, also where it tells the end"
    )
    apply(drawing, at(102, bar(101, 1)) | {"n": 2})
    assert use(102) == [part("2.0"), "0 %", "50 %", "50 %", "1"]
    apply(drawing, at(106, bar(105.5, 0.25)) | {"n": 5}, at(108, bar(106, 1)) | {"n": 6})
    assert use(108) == [part("4.0"), "0 %", "50 %", "50 %", "1"], "without the frames that were missed"
    apply(drawing, at(118) | {"n": 7})
    assert use(117) == ["Use of each XPU over the 10 s shown", "0 %", "0 %", "100 %", "0"]
    assert use(120) == [part("8.0"), "0 %", "0 %", "100 %", "0"], "a server that is silent"


def test_kernels_that_are_not_kept_were_not_idle_time(drawing: Any) -> None:
    apply(drawing, at(100) | {"n": 1})
    for n in range(44):
        bars = [bar(100 + n + place / 500, 1 / 500) for place in range(500)]
        apply(drawing, at(101 + n, *bars) | {"n": 2 + n})
    drawing.evaluate("live.tables.showUse(live.state, 144, 60)")
    assert drawing.inner_text("#lanes tbody").split("\t")[1:4] == ["0 %", "100 %", "0 %"]


def test_other_colours_and_another_width_draw_anew(drawing: Any) -> None:
    apply(drawing, at(100, bar(95, 1)))
    drawing.evaluate(DRAW, [100])
    for change in ("live.setTheme('dark')", "live.setTheme('light')"):
        drawing.evaluate(change)
        assert drawing.evaluate(DRAW, [100]) > 1
    drawing.set_viewport_size({"width": 500, "height": 700})
    until(lambda: drawing.evaluate("live.timeline.width") < 500)
    drawing.evaluate(DRAW, [100])
    assert shown(drawing, [94.5, 95.5, 96.5]) == [0, 1, 0]


def test_the_clock_is_even_although_frames_come_unevenly(page: Any, server: Running) -> None:
    page.goto(server.url)
    steps = page.evaluate(
        """() => {
            const clock = new ServerClock();
            const shown = [];
            for (let ms = 0; ms < 10000; ms += 1000 / 60) {
                const frame = Math.floor(ms / 200);
                // Each frame comes up to 80 ms late.
                const late = (frame * 37) % 80;
                const t = 50 + frame / 5;
                if (ms >= 200 * frame + late && clock.newest !== t) clock.hear(t, ms);
                if (clock.newest !== null) shown.push(clock.at(ms));
            }
            return shown.slice(60).map((t, place) => (place ? 1000 * (t - shown[place + 59]) : 16.7));
        }"""
    )
    assert min(steps) > 8
    assert max(steps) < 26


def test_a_clock_of_a_server_that_stops_or_is_another(page: Any, server: Running) -> None:
    page.goto(server.url)
    found = page.evaluate(
        """() => {
            const clock = new ServerClock();
            clock.hear(500, 1000);
            const stopped = clock.at(60000);
            clock.hear(3, 61000);
            return [stopped, clock.at(61500)];
        }"""
    )
    assert found == [501.5, 3.5]
