"""The tool calls with literal arguments that a program surely makes, statement by statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from agentrt.calls import ToolCall

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)
_RAW = re.compile(r"\b[rR][bBfF]?['\"]|\b[bBfF][rR]['\"]")
_ESCAPE = re.compile(r"\\(?:[\\'\"abfnrtvxuUN0-7\n])?")


class Program:
    """Finds the calls of tools in code, of which it takes one top-level statement after the other.

    A call is found if it is surely made, by a statement outside of any block, its arguments are JSON
    literals, and its name still means the tool: an assignment, ``def``, ``class``, ``import`` or ``del`` of
    that name ends that. Nothing is found after the first statement that uses a tool that is not speculable,
    because what it changes has to be read after it, and nothing after a statement that is not Python.
    """

    def __init__(self, tools: Mapping[str, Sequence[str]], speculable: Collection[str] | None) -> None:
        """``tools`` are the names of the parameters of each tool; ``speculable`` None means all of them."""
        self._parameters = tools
        self._speculable = frozenset(tools if speculable is None else speculable)
        self._others = self._parameters.keys() - self._speculable
        self._shadowed: set[str] = set()
        self._over = False

    def take(self, statement: str) -> list[ToolCall]:
        """Return the calls of the next statement, in the order in which it makes them."""
        if self._over:
            return []
        try:
            calls = [call for node in _parsed(statement) for call in self._calls_of(node)]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._over = True
            return []
        return calls

    def _calls_of(self, node: ast.stmt) -> Iterator[ToolCall]:
        value = node.value if isinstance(node, _SIMPLE) else None
        certain = [] if value is None else list(_certain_calls(value))
        called = {id(call.func) for call in certain}
        parts = list(ast.walk(node))
        self._over = self._over or any(
            _hides_all(part) or (self._is_write(part) and id(part) not in called) for part in parts
        )
        for made in certain:
            self._over = self._over or self._is_write(made.func)
            call = None if self._over else self._literal_call(made)
            if call is not None:
                yield call
        self._shadowed.update(name for part in parts for name in _bound_names(part))

    def _is_write(self, node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                return name in self._others and name not in self._shadowed
        return False

    def _literal_call(self, call: ast.Call) -> ToolCall | None:
        if not isinstance(call.func, ast.Name) or call.func.id not in self._speculable - self._shadowed:
            return None
        name = call.func.id
        names = self._parameters.get(name, ())
        if len(call.args) > len(names) or any(keyword.arg is None for keyword in call.keywords):
            return None
        given = [*zip(names, call.args, strict=False)]
        given += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None]
        try:
            arguments = {key: _literal(value) for key, value in given}
        except ValueError:
            return None
        return ToolCall(name, arguments) if len(arguments) == len(given) else None


def _parsed(statement: str) -> list[ast.stmt]:
    if not _RAW.search(statement):  # which has no unknown escapes: Python warns of them as it parses
        statement = _ESCAPE.sub(_doubled_if_unknown, statement)
    return ast.parse(statement).body


def _doubled_if_unknown(escape: re.Match[str]) -> str:
    return escape.group() if len(escape.group()) > 1 else r"\\"


def _certain_calls(node: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls that evaluating an expression surely makes, inner ones first."""
    match node:
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.IfExp(test=first) | ast.BoolOp(values=[first, *_]):
            yield from _certain_calls(first)
        case ast.Compare(left=left, comparators=[right, *_]):
            yield from _certain_calls(left)
            yield from _certain_calls(right)
        case _:
            for child in ast.iter_child_nodes(node):
                inner = child.value if isinstance(child, ast.keyword) else child
                if isinstance(inner, ast.expr):
                    yield from _certain_calls(inner)
            if isinstance(node, ast.Call):
                yield node


def _literal(node: ast.expr) -> Any:
    """Return the value of a JSON literal.

    Raises:
        ValueError: the expression is another.
    """
    match node:
        case ast.Constant(value=str() | bool() | int() | float() | None as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join([_text(value) for value in values])
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_text(key): _literal(value) for key, value in zip(keys, values, strict=True)}
    raise ValueError(ast.dump(node))


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("no text")


def _bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds anew."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def _hides_all(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


def parameters_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the names of the parameters of each tool, from schemas in the shape of chat completions."""
    functions = [tool.get("function", tool) for tool in tools]
    return {
        function["name"]: tuple((function.get("parameters") or {}).get("properties") or ())
        for function in functions
    }
