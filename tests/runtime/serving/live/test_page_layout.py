"""The live page at any width, in both themes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.live.page_driver import apply, frame, wait

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


LAID_OUT = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
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
