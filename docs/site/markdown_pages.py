"""A MkDocs hook that adds the Markdown of every page to the site, and ``llms.txt``, their index.

Language models read Markdown better than HTML: ``speculation.md`` lies beside ``speculation.html``, and
``llms.txt`` (https://llmstxt.org) lists all pages in the order of the navigation. Pages of the reference are
docstrings and have no Markdown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_GENERATED: Final = re.compile(r"^::: ", re.MULTILINE)
_CODE_BLOCK: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PROSE: Final = re.compile(r"[^\W_]|[`\[]|\*\*")
_SENTENCE_END: Final = re.compile(r"(?<=\.) (?=[A-Z`*\[])")


class MarkdownPages:
    """The pages of a build."""

    def __init__(self) -> None:
        """Start without pages."""
        self._pages: list[Page] = []

    def on_nav(self, nav: Navigation, **_: Any) -> Navigation:
        """Note the pages and their order."""
        self._pages = nav.pages
        return nav

    def on_post_build(self, *, config: Any, **_: Any) -> None:
        """Write the pages and the index."""
        site = Path(config.site_dir)
        written = [page for page in self._pages if not _GENERATED.search(page.markdown or "")]
        for page in written:
            file = site / page.file.src_uri
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(page.markdown or "", encoding="utf-8")
        entries = [
            f"- [{page.title}]({page.file.src_uri}): {summary(page.markdown or '')}" for page in written
        ]
        head = f"# {config.site_name}\n\n> {config.site_description}\n\n## Pages\n\n"
        (site / "llms.txt").write_text(head + "\n".join(entries) + "\n", encoding="utf-8")


def summary(markdown: str) -> str:
    """Return the first sentence of a page's first paragraph, without links."""
    paragraphs = re.split(r"\n\s*\n", _CODE_BLOCK.sub("", markdown))
    text = next((each for each in paragraphs if _PROSE.match(each)), "")
    return _SENTENCE_END.split(_LINK.sub(r"\1", " ".join(text.split())), maxsplit=1)[0].rstrip(":")


_build = MarkdownPages()
on_nav = _build.on_nav
on_post_build = _build.on_post_build
