"""The live page's timeline, and its layout at any width, in both themes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.serving.http.serving import Running, until
from tests.runtime.serving.live.page_driver import apply, frame, wait

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
    kernels = drawing.locator("#kernels tbody td:nth-child(4)")
    until(lambda: kernels.all_inner_texts() == ["250.00 ms"])  # drawn by the event of its being opened
    # Later than the page was last drawn, however long it took to load.
    drawing.evaluate("live.now = () => 400; live.pause(false)")
    drawing.evaluate("LivePage.prototype.draw.call(live, live.drawnTables + 1000)")
    until(lambda: kernels.all_inner_texts() == ["500.00 ms"] * 10)


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


def test_the_clock_is_even_although_frames_come_unevenly(blank: Any) -> None:
    steps, stopped, of_another = blank.evaluate(
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
            const steps = shown.slice(60).map((t, place) => (place ? 1000 * (t - shown[place + 59]) : 16.7));
            clock.hear(500, 11000);
            const stopped = clock.at(70000);
            clock.hear(3, 71000);
            return [steps, stopped, clock.at(71500)];
        }"""
    )
    assert min(steps) > 8
    assert max(steps) < 26
    assert (stopped, of_another) == (501.5, 3.5), "a server that stops, and another one"


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


def test_dark_and_light(blank: Any) -> None:
    grounds = {}
    for scheme in ("light", "dark"):
        blank.emulate_media(color_scheme=scheme)
        found = blank.evaluate(CONTRASTS)
        grounds[scheme] = found["ground"]
        assert found["text"] >= 4.5
        assert found["marks"] >= 3
    assert grounds["light"] != grounds["dark"]
    blank.get_by_label("Theme").select_option("light")
    assert blank.evaluate(CONTRASTS)["ground"] == grounds["light"], "also where the system is dark"
    blank.emulate_media(color_scheme="light")
    blank.get_by_label("Theme").select_option("dark")
    assert blank.evaluate(CONTRASTS)["ground"] == grounds["dark"]


# Texts that reach beyond the window or a box that cuts them, boxes that scroll, and values in several lines.
CUT = """() => {
    const found = [];
    const clips = (style) => style.overflowX !== "visible" || style.overflowY !== "visible";
    const unseen = ".skip, .stacked thead";
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !parent.checkVisibility() || parent.closest(unseen)) continue;
        const range = document.createRange();
        range.selectNodeContents(walker.currentNode);
        const rects = [...range.getClientRects()];
        const boxes = [{ left: 0, right: innerWidth, top: -Infinity, bottom: Infinity }];
        for (let box = parent; box !== document.body; box = box.parentElement) {
            if (clips(getComputedStyle(box))) boxes.push(box.getBoundingClientRect());
        }
        const whole = rects.every((rect) => boxes.every((box) => rect.left >= box.left - 1 &&
            rect.right <= box.right + 1 && rect.top >= box.top - 1 && rect.bottom <= box.bottom + 1));
        if (!whole) found.push(["cut", walker.currentNode.data]);
        const value = parent.matches("td:not(.name, .phrase)");
        if (value && rects.length > 1) found.push(["broken", parent.innerText]);
    }
    for (const box of document.querySelectorAll("html, main section, td, .names span")) {
        if (box.scrollWidth > box.clientWidth) found.push(["scrolls", box.tagName, box.innerText]);
    }
    return found;
}"""
CODER = "Qwen2.5-Coder-7B-Instruct-Q4_K_M"


def row(**more: Any) -> dict[str, Any]:
    """A request, with all that a row of it may say."""
    return {
        "id": "gen_01234567",
        "app": "research assistant",
        "context": "ctx_01234567",
        "class": "proactive",
        "state": "waiting",
        "promoted": False,
        "position": 12,
        "age_s": 1234.5,
        "tokens": 12345,
        "prefilled": 0.45,
        "queued_s": 9.99,
        "first_token_s": 9.99,
        "total_s": 1234.5,
        "outcome": "cancelled",
    } | more


def full(name: str, app: str) -> dict[str, Any]:
    """A frame that has something in every part of the page."""
    requests = [
        row(app=app, state="prefill", promoted=True, position=None),
        row(app=app, first_token_s=None, not_known="reactive requests go first"),
        row(app=app, first_token_s=None, not_known="later than expected"),
        row(app=app, **{"class": "reactive"}),
        row(app=app, state="decode", end_s=9.9),
    ]
    del requests[-1]["first_token_s"]
    held = [
        {"held_for": "requests", "app": app, "context": "ctx_01234567", "bytes": 2**33},
        {"held_for": "requests", "app": app, "context": None, "bytes": 2**33},
        {"held_for": "next turn", "app": None, "context": None, "bytes": 2**30},
        {"held_for": "disk", "app": None, "context": None, "bytes": 2**28},
        {"held_for": "other", "app": None, "context": None, "bytes": 2**28},
    ]
    found = frame(
        name=name,
        stalled_s=123.4,
        running=12,
        waiting=1234,
        memory_bytes=2**34,
        requests=requests,
        ended=[row(app=app)],
        answered=[{"tools": ["search_the_documentation"]}],
        kv={"bytes": 2**35, "free_bytes": 2**33, "cached_bytes": 2**32, "held": held},
        kernels=[[xpu, 0.5, 0.1, 1, 1, 1, "gen_01234567", 12] for xpu in (0, 1)],
        counts={"sampled_tokens": 10**6, "drafted_tokens": 10**6, "accepted_tokens": 10**5},
    )
    found["models"].append({"name": f"{name} 2", "status": "not loaded", "counts": {}})
    recent = [{"tool": "search_the_documentation", "what": "run when it was called", "saved_s": 12.3}]
    counts = {"drafts": 123, "claims": 45, "misses": 67, "wasted": 8, "saved_s": 9.1}
    return found | {"speculation": counts | {"recent": recent}}


@pytest.mark.parametrize(
    "width", [320, 360, 400, 480, 600, 768, 900, 1024, 1100, 1200, 1280, 1366, 1600, 1920]
)
def test_nothing_is_cut_and_nothing_scrolls_at_any_width(page: Any, server: Running, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(server.url)
    page.evaluate("document.querySelector('details').open = true")
    page.evaluate("document.getElementById('player').hidden = false")
    apply(page, full(CODER, "research assistant"))
    wait(page, "document.querySelector('#requests tbody').innerText.includes('promoted')")
    page.evaluate(LAID_OUT)
    assert page.evaluate(CUT) == []
    apply(page, full("m" * 100, "a" * 64))
    wait(page, "document.querySelector('#requests tbody').innerText.includes('aaa')")
    page.evaluate(LAID_OUT)
    found = [(kind, *rest) for kind, *rest in page.evaluate(CUT) if "SPAN" not in rest]
    # No more than the beginning of a lane's name fits beside its bars; the table below has it whole.
    assert set(found) <= {("cut", f"{'m' * 100}: {xpu}") for xpu in ("prefill", "decode")}


def test_stacked_rows_are_rows_of_a_table_still(page: Any, server: Running) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(server.url)
    apply(page, full(CODER, "notes"))
    wait(page, "document.querySelector('#requests').classList.contains('stacked')")
    wait(page, "document.querySelector('#requests tbody').innerText.includes('promoted')")
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    names = [each["name"]["value"] for each in tree if each.get("role", {}).get("value") == "columnheader"]
    assert {"State", "Queue position", "Expected", "Held for"} <= set(names)
    shown = [each for each in tree if each.get("role", {}).get("value") == "table"]
    assert len(shown) >= 7
    titles = page.evaluate(
        "[...document.querySelector('#requests tbody tr').cells].map((cell) => cell.dataset.title)"
    )
    assert titles[:5] == ["Class", "App", "State", "Queue position", "Expected"]
