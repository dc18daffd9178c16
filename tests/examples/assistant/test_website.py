import asyncio
from collections.abc import Iterator

import httpx
import pytest

from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.website import Page, WebSite, look_up

pytestmark = pytest.mark.socket


@pytest.fixture
def site() -> Iterator[WebSite]:
    with WebSite(0) as site:
        yield site


def found(url: str, query: str) -> Page:
    async def fetch() -> Page:
        async with httpx.AsyncClient(base_url=url) as client:
            return await look_up(client, query)

    return asyncio.run(fetch())


def test_the_page_that_matches_best_is_found(site: WebSite) -> None:
    page = found(site.url, "kayak rental")
    assert page.title == "Kayak rental Bergen"
    assert "35 euros a day" in page.text


def test_words_that_no_page_has(site: WebSite) -> None:
    assert found(site.url, "zeppelin") == Page("nothing found", "Try other words.")


def test_pages_are_html(site: WebSite) -> None:
    answer = httpx.get(f"{site.url}/search", params={"q": "lakes"})
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.text.startswith("<!doctype html>")
    assert httpx.get(f"{site.url}/other").status_code == 404


def test_a_site_that_is_gone_is_a_clear_error() -> None:
    with WebSite(0) as site:
        url = site.url
    with pytest.raises(ToolError, match="the web does not answer"):
        found(url, "lakes")
