"""Docstrings refer to names that exist."""

import ast
import builtins
import re
from functools import cache

from tests.house.project import PARTS, ROOT, imports, modules

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
