"""What counts as a dropped frame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agentrt.bench.page import browser
from agentrt.bench.page.browser import LivePage
from agentrt.bench.page.load import background, first_token_s, serve_nano
from tests.external_commands import require

pytestmark = pytest.mark.bench

BLOCK = """() => {
    setInterval(() => {
        const until = performance.now() + 50;
        while (performance.now() < until);
    }, 150);
}"""


@pytest.fixture(scope="module")
def tab() -> Iterator[LivePage]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    require("chromium")
    with ExitStack() as stack:
        url = stack.enter_context(serve_nano())
        opened, _ = stack.enter_context(browser.open_browser(url))
        stack.enter_context(background(url))
        assert min(first_token_s(url, 2, 0.0)) > 0
        yield opened


def test_a_page_that_is_busy_for_50_ms_drops_frames(tab: LivePage) -> None:
    tab.open()
    tab._page.evaluate(BLOCK)
    drawn = tab.watch(2.0)
    # Each block hides two frames at least, and two blocks fall into two seconds however busy the machine is.
    assert drawn.dropped >= 4
    assert drawn.longest_ms >= 50 - 1000 / 60
    assert drawn.busy["Task"] >= drawn.busy["Script"] > 0


def test_a_page_that_draws_nothing_drops_all_frames(tab: LivePage) -> None:
    tab.open()
    tab._page.click("#pause")
    drawn = tab.watch(1.0)
    assert drawn.pictures == 0
    assert drawn.dropped > 10
    assert drawn.events > 0, "but it goes on to read"


def test_an_empty_page_has_no_events(tab: LivePage) -> None:
    tab.open()
    tab.close()
    drawn = tab.watch(0.5)
    assert (drawn.events, drawn.missed) == (0, 0)
    assert drawn.pictures > 0
