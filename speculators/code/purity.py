"""What code can call without changing anything that a tool reads."""

from __future__ import annotations

import ast
from collections.abc import Collection

_BUILTINS = frozenset({
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate",
    "float", "format", "frozenset", "hash", "hex", "id", "int", "isinstance", "len", "list", "max", "min",
    "oct", "ord", "pow", "print", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str",
    "sum", "tuple", "zip",
})  # fmt: skip
"""Functions that change nothing; none calls what it is given, except its ``key``."""
_MODULES = frozenset({
    "asyncio", "collections", "dataclasses", "datetime", "functools", "itertools", "json", "math",
    "operator", "os", "pathlib", "random", "re", "statistics", "string", "subprocess", "sys", "textwrap",
    "time", "typing",
})  # fmt: skip
"""Modules whose import changes nothing. Calls of their functions are another matter."""
_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.JoinedStr)


class PureNames:
    """The names that mean a pure builtin or a plain value, as far as code has been read.

    A plain value is a text, a list, a dict or a set that the code itself has written: its methods change
    nothing else.
    """

    def __init__(self, tools: Collection[str]) -> None:
        """``tools`` are names that mean tools, also where a builtin has that name."""
        self._builtins = set(_BUILTINS.difference(tools))
        self._plain: set[str] = set()

    def hide(self, names: Collection[str]) -> None:
        """Take these names to mean something else from now on."""
        self._builtins.difference_update(names)
        self._plain.difference_update(names)

    def assign(self, statement: ast.stmt) -> None:
        """Take in that a top-level statement may bind a name to a plain value."""
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if self.is_plain(value):
                self._plain.add(name)

    def is_plain(self, node: ast.expr) -> bool:
        """Whether an expression is surely a plain value."""
        match node:
            case ast.Name(id=name):
                return name in self._plain
            case ast.Constant(value=str()):
                return True
        return isinstance(node, _DISPLAYS)

    def calls(self, call: ast.Call) -> bool:
        """Whether a call is one of a pure builtin, or of a method of a plain value."""
        match call.func:
            case ast.Attribute(value=owner):
                pure = self.is_plain(owner)
            case function:
                pure = self._is_builtin(function)
        return pure and all(self._is_harmless(keyword) for keyword in call.keywords)

    def _is_builtin(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._builtins

    def _is_harmless(self, keyword: ast.keyword) -> bool:
        """Whether nothing unknown is called by way of an argument; a lambda's calls are judged themselves."""
        if keyword.arg == "key":
            return isinstance(keyword.value, ast.Lambda) or self._is_builtin(keyword.value)
        return keyword.arg not in (None, "file")


def imports_only_known(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import runs no unknown code, and says which names it binds."""
    if isinstance(node, ast.ImportFrom):
        known = node.level == 0 and node.module is not None and _top_level(node.module) in _MODULES
        return known and all(alias.name != "*" for alias in node.names)
    return all(_top_level(alias.name) in _MODULES for alias in node.names)


def _top_level(module: str) -> str:
    return module.partition(".")[0]
