"""docs/structure.md shows the tree as it is, in few words."""

import itertools
import re
from collections import defaultdict

from tests.house.project import PARTS, ROOT, TRAINING, modules
from tests.house.test_structure import rooms

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
    named = re.findall(r"(?<![\w/-])([a-z]+/[\w./-]*)", PAGE)

    assert [path for path in named if not (ROOT / path).exists()] == []


def picture() -> dict[str, set[str]]:
    """Return the arrows of the page's picture: room of the runtime -> rooms that it points at."""
    (drawn,) = re.findall(r"^```mermaid\nflowchart TD\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found: dict[str, set[str]] = defaultdict(set)
    for line in drawn.splitlines():
        stops = [stop.split(" & ") for stop in line.strip().split("-->")]
        for above, below in itertools.pairwise(stops):
            for room in above:
                found[room] |= set(below)
    return found


def test_the_picture_allows_what_the_rooms_import_and_nothing_else() -> None:
    graph = {
        room.rpartition(".")[2]: {below.rpartition(".")[2] for below in imported}
        for room, imported in rooms("agentrt.runtime").items()
    }

    def reached(room: str, arrows: dict[str, set[str]]) -> set[str]:
        return {each for below in arrows.get(room, ()) for each in {below} | reached(below, arrows)}

    drawn = picture()
    shown = set(drawn) | {room for below in drawn.values() for room in below}
    assert shown == set(graph) | {room for imported in graph.values() for room in imported}
    assert {room: reached(room, drawn) for room in shown} == {room: reached(room, graph) for room in shown}


def test_it_is_short() -> None:
    assert len(PAGE.split()) <= MOST_WORDS
