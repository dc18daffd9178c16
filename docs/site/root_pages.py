"""A MkDocs hook that adds the pages at the root of the repository to the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

# File at the root -> its path in the site.
PAGES = {
    "README.md": "start.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "LICENSE.txt",
}


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages of the root."""
    root = Path(config.config_file_path).parent
    for name, page in PAGES.items():
        files.append(
            File.generated(config, page, content=from_root((root / name).read_text(encoding="utf-8")))
        )
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links that leave ``docs/`` to the pages of the root."""
    return re.sub(
        r"\]\(((?:\.\./)*)\.\./([A-Z]+\.md)", lambda found: f"]({found[1]}{PAGES[found[2]]}", markdown
    )


def from_root(markdown: str) -> str:
    """Return a page of the root with its links as seen from ``docs/``."""
    markdown = re.sub(r"\]\(docs/", "](", markdown)
    return re.sub(r"\]\((LICENSE|[A-Z]+\.md)", lambda found: f"]({PAGES[found[1]]}", markdown)
