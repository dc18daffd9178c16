"""What every source file keeps to: its place, its names, its errors, and no telemetry of FastAPI's."""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import re
from functools import cache

import pytest

from agentrt import errors
from tests.house.project import PARTS, ROOT, files, imports, modules


def test_no_application_is_made_elsewhere() -> None:
    making = {
        path.relative_to(ROOT).as_posix()
        for folder in PARTS
        for path in files(folder)
        if path.suffix == ".py" and re.search(r"\bFastAPI\(", path.read_text(encoding="utf-8"))
    }
    assert making == {"runtime/serving/http/application.py"}


def test_no_module_lies_in_a_folder_that_is_no_package() -> None:
    misplaced = [
        str(path.relative_to(ROOT)) for _, path in modules() if not (path.parent / "__init__.py").exists()
    ]

    assert misplaced == []


@pytest.mark.parametrize("folder", [folder for folder in PARTS if folder != "agentrt"])
def test_the_source_tree_has_a_link_to_each_part(folder: str) -> None:
    link = ROOT / "agentrt" / folder

    # Git for Windows may leave a link as a text file that holds its target.
    target = os.readlink(link) if link.is_symlink() else link.read_text(encoding="utf-8")
    assert target == f"../{folder}"


def test_the_parts_are_imported_by_their_own_names() -> None:
    bare = set(PARTS) - {"agentrt"}
    scripts = [
        (path.stem, path) for folder in ("tests", ".ci") for path in files(folder) if path.suffix == ".py"
    ]

    offenders = [
        f"{path.relative_to(ROOT)}:{imported.line} imports {imported.target}"
        for name, path in [*modules(), *scripts]
        for imported in imports(name, path)
        if imported.target.split(".")[0] in bare
    ]

    assert offenders == []


def drawn_tree() -> dict[str, str | None]:
    """Class name -> name of the class it is drawn under; classes without others below may share a line."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^ {4}((?:│ {3}| {4})*)(├── |└── |)([A-Za-z]+Error\b.*)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4 + bool(found[2])
        names = re.findall(r"[A-Za-z]+Error", found[3])
        parents |= dict.fromkeys(names, path[depth - 1] if depth else None)
        path[depth:] = [names[-1]]
    return parents


def test_every_error_is_drawn_under_its_base() -> None:
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    }

    real = {name: kind.__bases__[0].__name__ for name, kind in classes.items()}
    assert real.pop("AgentRTError") == "Exception"
    drawn = drawn_tree()
    assert drawn.pop("AgentRTError") is None
    assert drawn == real


def test_every_error_says_what_it_is() -> None:
    undocumented = [name for name, kind in vars(errors).items() if inspect.isclass(kind) and not kind.__doc__]

    assert undocumented == []


ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([\w.]+)`")


def names_in(tree: ast.AST) -> set[str]:
    """Return every name that a module defines or imports: classes, functions, variables, attributes."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).rpartition(".")[2])
    return found


@cache
def other_packages() -> frozenset[str]:
    """Return the packages that the project imports from elsewhere."""
    found = {imported.target.partition(".")[0] for item in modules() for imported in imports(*item)}
    return frozenset(found - {"agentrt"})


@cache
def all_names() -> frozenset[str]:
    """Return the names of every module of the package, and of the modules themselves."""
    found = {*PARTS, *dir(builtins)}
    for name, path in modules():
        found |= {name.rpartition(".")[2]} | names_in(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(found)


def test_every_role_names_something_that_exists() -> None:
    stale = [
        f"{path.relative_to(ROOT)}: {role}"
        for _, path in modules()
        for role in ROLE.findall(path.read_text(encoding="utf-8"))
        if role.partition(".")[0] not in other_packages() and role.rpartition(".")[2] not in all_names()
    ]

    assert stale == []
