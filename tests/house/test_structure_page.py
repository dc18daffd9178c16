"""docs/structure.md shows the tree as it is, in few words."""

import re

from tests.house.project import PARTS, ROOT, TRAINING, modules

PAGE = (ROOT / "docs" / "structure.md").read_text(encoding="utf-8")

MOST_WORDS = 1100


def lines() -> dict[str, str]:
    """Return the tree of the page: folder -> what it is."""
    (tree,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in tree.splitlines())


def test_every_folder_has_a_line_and_every_line_is_a_folder() -> None:
    packages = {
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for _, path in modules(PARTS | TRAINING)
        if path.name == "__init__.py"
    }

    assert sorted(lines()) == sorted(packages | {"tests/", "docs/"})


def test_every_path_exists() -> None:
    named = re.findall(r"(?<![\w/])([a-z]+/[\w./]*)", PAGE)

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_it_is_short() -> None:
    assert len(PAGE.split()) <= MOST_WORDS
