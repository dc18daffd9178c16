"""A headless Chromium of this machine, and how smoothly the live page is drawn in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from agentrt.errors import ConfigurationError

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")

# Counts the pictures of the page, and the frames of the screen, at 60 a second, that passed without one. Its
# callback runs after the page's own one, which has drawn by then, or has not.
_WATCH: Final = """() => {
    const empty = typeof live === "undefined";
    const page = empty ? { drawn: 0, state: { events: 0 } } : live;
    const begun = performance.now();
    const watched = { dropped: 0 };
    const { events } = page.state;
    let [before, drawn] = [null, page.drawn];
    const count = (time) => {
        const pictures = empty || page.drawn > drawn ? 1 : 0;
        drawn = page.drawn;
        const passed = before === null ? pictures : Math.max(1, Math.round((time - before) * 60 / 1000));
        watched.dropped += passed - pictures;
        before = time;
        if (!watched.ended) requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
    window.watched = () => {
        watched.ended = true;
        watched.seconds = (performance.now() - begun) / 1000;
        return { ...watched, events: page.state.events - events };
    };
}"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the page has drawn in some seconds."""

    seconds: float
    events: int
    """Kernels, ended requests and answered calls that the page has taken in."""
    dropped: int
    """Frames of the screen, at 60 a second, for which it has not drawn its timeline anew."""


class LivePage:
    """A tab, which shows the live page or nothing."""

    def __init__(self, page: Any, url: str) -> None:
        """``page`` is Playwright's, ``url`` the server's."""
        self._page = page
        self._url = url

    def open(self) -> None:
        """Show the live page, and wait for its first frame."""
        self._page.goto(self._url)
        while self._page.evaluate("live.state.t") is None:
            self._page.wait_for_timeout(20)

    def close(self) -> None:
        self._page.goto("about:blank")

    def watch(self, seconds: float) -> Drawn:
        """Count what the tab draws in ``seconds``. An empty one draws with each frame that it can."""
        self._page.evaluate(_WATCH)
        self._page.wait_for_timeout(1000 * seconds)
        read = self._page.evaluate("watched()")
        return Drawn(read["seconds"], read["events"], read["dropped"])


@contextmanager
def open_browser(url: str) -> Iterator[LivePage]:
    """Start a browser; yield a tab for the server at ``url``.

    Raises:
        ConfigurationError: there is no Chromium on this machine.
    """
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, _NAMES)), None)
    if chromium is None:
        raise ConfigurationError("no Chromium is installed here. Install your system's package: chromium.")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            page.set_viewport_size({"width": 1280, "height": 900})
            yield LivePage(page, url)
        finally:
            browser.close()
