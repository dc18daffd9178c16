"""The tree has layers: no circle of files, and none of the rooms that lie side by side in a folder.

Imports count wherever they stand: at the top, inside functions, and for type checkers only. A package's
``__init__`` that only hands names on is no room: who imports a name from it imports the file that defines it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.house.project import PARTS, TRAINING, imports, modules, within

FILES: dict[str, Path] = dict(modules(PARTS | TRAINING))


def is_package(name: str) -> bool:
    return FILES[name].name == "__init__.py"


@cache
def defines_nothing(name: str) -> bool:
    """Whether a package's ``__init__`` holds imports and names only."""
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
        if target in FILES and not (is_package(target) and defines_nothing(target)):
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
        if is_package(name) and defines_nothing(name):
            continue
        for imported in imports(name, path):
            target = resolved(imported.target)
            # ``from package import name`` also names the package: the name says which file is meant.
            if (
                target is not None
                and target != name
                and not (
                    imported.target in FILES
                    and is_package(imported.target)
                    and defines_nothing(imported.target)
                )
            ):
                found[name].add(target)
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Strongly connected parts of more than one (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            part = [stack.pop()]
            while part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    for node in list(graph):
        if node not in index:
            visit(node)
    return found


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
    assert circles(arrows()) == []


@pytest.mark.parametrize("folder", sorted(name for name in FILES if is_package(name)))
def test_no_circle_of_rooms(folder: str) -> None:
    graph = rooms(folder)
    ties = {
        tuple(circle): sorted(
            f"{name} -> {target}"
            for name, targets in arrows().items()
            for target in targets
            if any(name == room or name.startswith(room + ".") for room in circle)
            and any(target == room or target.startswith(room + ".") for room in circle)
            and not any(
                (name + ".").startswith(room + ".") and (target + ".").startswith(room + ".")
                for room in circle
            )
        )
        for circle in circles(graph)
    }
    assert ties == {}


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
