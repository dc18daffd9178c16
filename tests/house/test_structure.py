"""The tree has layers: no circle of files, and none of the rooms that lie side by side in a folder.

Imports count wherever they stand: at the top, inside functions, and for type checkers only. A package's
``__init__`` that only hands names on is no room: who imports a name from it imports the file that defines it.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.house.project import PARTS, ROOT, TRAINING, imports, modules, within

FILES: dict[str, Path] = dict(modules(PARTS | TRAINING))


def is_package(name: str) -> bool:
    return FILES[name].name == "__init__.py"


@cache
def hands_on(name: str) -> bool:
    """Whether this is a package's ``__init__`` with imports and names only."""
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    return is_package(name) and not any(
        isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("__")
        for node in tree.body
    )


@cache
def handed_on(package: str) -> Mapping[str, str]:
    """Where the names that a package hands on come from."""
    found: dict[str, str] = {}
    tree = ast.parse(FILES[package].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, node.module] if node.module else above)
            for alias in node.names:
                found[alias.asname or alias.name] = f"{base}.{alias.name}"
        elif isinstance(node, ast.Dict):  # a table of what is loaded when it is first asked for
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    found[str(key.value)] = f"{package}{value.value}.{key.value}"
    return found


def resolved(target: str) -> str | None:
    """The module of the project that defines ``target``, a module or a name in one; None if it is neither."""
    seen = set()
    while target not in seen:
        seen.add(target)
        if target in FILES and not hands_on(target):
            return target
        package, _, name = target.rpartition(".")
        if package in FILES and is_package(package) and name in handed_on(package):
            target = handed_on(package)[name]
        elif package in FILES and target not in FILES:
            return package
    return None


@cache
def arrows() -> dict[str, set[str]]:
    """Which module imports which."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in FILES.items():
        if hands_on(name):
            continue
        for imported in imports(name, path):
            target = resolved(imported.target)
            # ``from package import name`` also names the package: the name says which file is meant.
            package = imported.target in FILES and hands_on(imported.target)
            if target not in (None, name) and not package:
                found[name].add(target)
    return found


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The nodes of a circle, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


def rooms(folder: str) -> dict[str, set[str]]:
    """The files and packages directly in ``folder``, and which of them imports which."""
    depth = folder.count(".") + 2 if folder else 1
    graph: dict[str, set[str]] = defaultdict(set)
    for name, targets in arrows().items():
        for target in targets:
            inside = not folder or (name.startswith(folder + ".") and target.startswith(folder + "."))
            here, there = (".".join(module.split(".")[:depth]) for module in (name, target))
            if inside and here != there:
                graph[here].add(there)
    return graph


# (importer, imported): pairs of rooms of which the first never imports the second.
NEVER = [
    ("agentrt.runtime.serving.http", "agentrt.runtime.serving.server"),
    ("agentrt.runtime.serving.http", "agentrt.runtime.serving.gateway"),
    ("agentrt.runtime.serving.server", "agentrt.runtime.serving.gateway"),
    ("agentrt.runtime.serving.gateway", "agentrt.runtime.serving.server"),
    ("agentrt.runtime.serving.gateway", "agentrt.runtime.local.service"),
    ("agentrt.cli.gateway", "agentrt.runtime.serving.server"),
    ("agentrt.cli.gateway", "agentrt.runtime.local.service"),
]


@pytest.mark.parametrize(("importer", "imported"), NEVER)
def test_a_room_never_imports_another(importer: str, imported: str) -> None:
    assert any(within(name, importer) for name in FILES)
    assert any(within(name, imported) for name in FILES)
    edges = {
        f"{name} -> {target}"
        for name, targets in arrows().items()
        if within(name, importer)
        for target in targets
        if within(target, imported)
    }
    assert edges == set()


def test_no_circle_of_files() -> None:
    assert circle(arrows()) == []


@pytest.mark.parametrize("folder", sorted(name for name in FILES if is_package(name)))
def test_no_circle_of_rooms(folder: str) -> None:
    assert circle(rooms(folder)) == []


def test_the_runtime_is_a_small_house() -> None:
    """Bounds of the rooms, of the arrows between them, and of the longest way from top to bottom."""
    graph = rooms("agentrt.runtime")

    @cache
    def floor(room: str) -> int:
        return 1 + max((floor(below) for below in graph.get(room, ())), default=0)

    everything = set(graph) | {room for below in graph.values() for room in below}
    assert len(everything) <= 17
    assert sum(len(below) for below in graph.values()) <= 75
    assert max(floor(room) for room in everything) <= 11


# docs/structure.md shows the tree as it is, in few words.
PAGE = (ROOT / "docs" / "structure.md").read_text(encoding="utf-8")


def test_every_folder_has_a_line_and_every_line_is_a_folder() -> None:
    packages = {
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for _, path in modules(PARTS | TRAINING)
        if path.name == "__init__.py"
    }

    (tree,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    named = [line.split()[0] for line in tree.splitlines()]
    assert sorted(named) == sorted(packages | {"tests/", "docs/"})


def test_the_page_is_short_and_its_paths_exist() -> None:
    assert len(PAGE.split()) <= 1100
    named = re.findall(r"(?<![\w/-])([a-z]+/[\w./-]*)", PAGE)

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_a_file_without_a_folder_is_in_one_that_its_paragraph_names() -> None:
    missing = []
    for paragraph in re.split(r"\n\n|\n(?=\d\.|- )", PAGE):
        folders = {(ROOT / path).parent for path in re.findall(r"`([a-z]+/[\w./-]*\.py)`", paragraph)}
        bare = re.findall(r"`(\w+\.py)`", paragraph)
        missing += [name for name in bare if not any((folder / name).exists() for folder in folders)]
    assert missing == []


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
