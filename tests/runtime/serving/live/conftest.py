from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.http.identity import Tokens
from tests.external_commands import require
from tests.runtime.serving.http.serving import Running, Start
from tests.runtime.serving.server.conftest import start

__all__ = ["start"]

HOSTILE = "<img/src=x/onerror=window.ran=1>"
"""A name of an app, as a token file may have it."""
TOKENS = Tokens([("owner", "o" * 20), (HOSTILE, "n" * 20)])
OWNER, OTHER = ({"authorization": f"Bearer {letter * 20}"} for letter in "on")


@pytest.fixture
def server(start: Start) -> Running:
    return start(tokens=TOKENS)


def frames_of(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The frames of an open event stream."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium of this machine. Nothing is downloaded.

    Until it is closed, Playwright's event loop runs on this thread, where no other one can run.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = require("chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page in a context of its own. An error of a script fails the test, and so does any dialog."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(30_000)
    faults: list[str] = []

    def dismiss(dialog: Any) -> None:
        faults.append(dialog.message)
        dialog.dismiss()

    opened = context.new_page()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("dialog", dismiss)
    yield opened
    context.close()
    assert faults == []


@pytest.fixture
def blank(page: Any, server: Running) -> Any:
    """A page that shows the frames that it is given."""
    page.goto(server.url)
    return page
