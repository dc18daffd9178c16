"""A headless Chromium of this machine, and how smoothly the live page is drawn in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from agentrt.errors import ConfigurationError

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")

# Counts frames of the screen that passed without a picture, at 60 a second.
_WATCH: Final = """() => {
    const { events } = live.state;
    const watched = { frames: 0, dropped: 0, longest: 0, begun: performance.now(), events };
    window.watched = watched;
    let before = null;
    const count = (time) => {
        if (before !== null) {
            watched.frames += 1;
            watched.dropped += Math.max(0, Math.round((time - before) * 60 / 1000) - 1);
            watched.longest = Math.max(watched.longest, time - before);
        }
        before = time;
        if (!watched.ended) requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
}"""
_READ: Final = """() => {
    const { frames, dropped, longest, begun, events } = window.watched;
    window.watched.ended = true;
    const seconds = (performance.now() - begun) / 1000;
    const { state } = live;
    return { frames, dropped, longest, seconds, events: state.events - events, missed: state.missed };
}"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the page has drawn in some seconds."""

    seconds: float
    events: int
    """Kernels, ended requests and answered calls that the page has taken in."""
    frames: int
    dropped: int
    """Frames of the screen, at 60 a second, for which the page had no new picture."""
    longest_ms: float
    """The longest time between two pictures."""
    missed: int
    """Frames of the server that it left out because the page read slowly."""


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
        """Show nothing."""
        self._page.goto("about:blank")

    def watch(self, seconds: float) -> Drawn:
        """Count what the open page draws in ``seconds``."""
        self._page.evaluate(_WATCH)
        self._page.wait_for_timeout(1000 * seconds)
        read = self._page.evaluate(_READ)
        return Drawn(
            seconds=read["seconds"],
            events=read["events"],
            frames=read["frames"],
            dropped=read["dropped"],
            longest_ms=read["longest"],
            missed=read["missed"],
        )


@contextmanager
def open_browser(url: str) -> Iterator[tuple[LivePage, str]]:
    """Start a browser; yield a tab for the server at ``url``, and the browser's version.

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
            yield LivePage(page, url), browser.version
        finally:
            browser.close()
