"""The text of an HTML page or mail."""

from __future__ import annotations

import html.parser

_INSIDE_WORDS = ("a", "b", "em", "font", "i", "span", "strong", "u")
_HIDDEN = ("style", "script", "head")


def page_text(html: str) -> str:
    """Return the text without tags, styles and scripts, its white space folded."""
    collector = _TextCollector()
    collector.feed(html)
    return " ".join("".join(collector.pieces).split())


class _TextCollector(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN and self._hidden > 0
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)

    def _separate(self, tag: str) -> None:
        if tag not in _INSIDE_WORDS:
            self.pieces.append(" ")
