"""What counts as a dropped frame, and the page bench on next to no work."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agentrt.bench.page import browser
from agentrt.bench.page import main as page
from agentrt.bench.page.browser import LivePage
from agentrt.bench.page.main import background, first_token_s, serve_nano
from agentrt.errors import ConfigurationError
from tests.external_commands import require

pytestmark = pytest.mark.bench


# Before the tab is opened, which stays open: one driver at a time runs in a process.
@pytest.mark.needs("chromium")
def test_the_bench_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    monkeypatch.setattr(page, "SIZES", {True: page.Size(1.0, 2, 2)})
    report = page.run(quick=True, workloads=None, progress=lambda line: None)
    assert report.figures["events_per_s_rendered"].value > 0
    assert report.figures["ttft_ratio_with_page_open"].value > 0


def test_a_machine_without_chromium(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with (
        pytest.raises(ConfigurationError, match="Install your system's package"),
        browser.open_browser("http://x"),
    ):
        pass


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
        opened = stack.enter_context(browser.open_browser(url))
        stack.enter_context(background(url))
        assert min(first_token_s(url, 2, 0.0)) > 0
        yield opened


def test_a_page_that_is_busy_for_50_ms_drops_frames(tab: LivePage) -> None:
    tab.open()
    tab._page.evaluate(BLOCK)
    # Each block hides two frames at least, and two blocks fall into two seconds however busy the machine is.
    assert tab.watch(2.0).dropped >= 4


def test_a_page_that_draws_nothing_drops_all_frames(tab: LivePage) -> None:
    tab.open()
    tab._page.click("#pause")
    drawn = tab.watch(1.0)
    assert drawn.dropped > 10
    assert drawn.events > 0, "but it goes on to read"
    tab.close()
    assert tab.watch(0.5).events == 0, "an empty page has none"
