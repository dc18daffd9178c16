"""The live page of a server that is silent, stops or is gone: the figures stay, with their age."""

from __future__ import annotations

from typing import Any

from agentrt.examples.demo.page import DemoPage
from agentrt.runtime import LocalRuntime
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.live.page_driver import apply, frame, open_live, wait
from tests.runtime.serving.server.conftest import HELLO

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


def test_the_last_state_of_the_demo_stays(page: Any, runtime: LocalRuntime) -> None:
    demo = DemoPage()
    with demo.served() as (address, token):
        page.goto(address)
        page.get_by_label("Token of the server's owner").fill(token)
        page.keyboard.press("Enter")
        with demo.watching(runtime):
            wait(page, "live.state.models.length > 0")
            runtime.generate(HELLO, max_tokens=5)
            wait(page, "live.state.ended.length > 0")
        wait(page, "document.getElementById('status').innerText.includes('No model is there any more')")
    wait(page, "document.getElementById('status').innerText.includes('does not answer')")
    assert page.locator("#models tbody td").all_inner_texts()[:2] == ["nano", "loaded"]
    assert page.inner_text("#age").endswith(" ago")
