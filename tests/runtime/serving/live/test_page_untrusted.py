"""Names, frames and recordings that try to run scripts in the live page, or to break it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.live.conftest import HOSTILE
from tests.runtime.serving.live.page_driver import apply, frame, replayed, wait


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
