"""A small web site on this machine, and a client that looks something up there.

The site has a page on each of a few topics. ``/search?q=words`` answers with the page that matches best, as
a search engine does that opens its first result.
"""

from __future__ import annotations

import html
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

import httpx

from . import search
from .errors import ToolError
from .http_service import HttpService, Reply
from .page_text import page_text

# Blank lines between the pages; the first line is the title.
_PAGES = """\
Kayak rental Bergen
A kayak costs 35 euros a day and the harbour office opens at nine.

Old station hall
The hall has 240 seats, a bar and no parking. Take tram 4.

Baking sourdough
Bake the loaf at 230 degrees for 40 minutes and let it cool.

Northern lakes
The map of the northern lakes shows 61 huts and all ferries.
"""


class WebSite(HttpService):
    """The site, in a ``with`` block. It answers ``/search?q=kayak+rental``."""

    def __init__(self, delay: float) -> None:
        """``delay`` is the time in seconds before each page; see :class:`HttpService`."""
        super().__init__("web site", delay, _answer)


@dataclass(frozen=True)
class Page:
    """One page of a site, without its HTML."""

    title: str
    text: str


async def look_up(client: httpx.AsyncClient, query: str) -> Page:
    """Return the page found on the site at the client's base URL; :class:`ToolError` if it is gone."""
    try:
        response = await client.get("/search", params={"q": query})
        response.raise_for_status()
    except httpx.HTTPError as error:
        raise ToolError(f"the web does not answer: {error or type(error).__name__}") from error
    title = re.search(r"<title>(.*?)</title>", response.text, re.DOTALL)
    return Page(html.unescape(title[1]) if title else "untitled", page_text(response.text))


def _answer(path: str, query: Mapping[str, str]) -> Reply | None:
    if path != "/search":
        return None
    pages = [paragraph.split("\n", 1) for paragraph in _PAGES.strip().split("\n\n")]
    with closing(sqlite3.connect(":memory:")) as index:
        search.create_index(index, "pages")
        index.executemany("INSERT INTO pages(title, text) VALUES (?, ?)", pages)
        found = search.rank(index, "pages", query.get("q", ""), 1)
    title, text = pages[found[0] - 1] if found else ("nothing found", "Try other words.")
    return Reply(200, _document(title, text), "text/html")


def _document(title: str, text: str) -> str:
    return (
        f"<!doctype html><html><head><title>{html.escape(title)}</title></head>"
        f"<body><p>{html.escape(text)}</p></body></html>\n"
    )
