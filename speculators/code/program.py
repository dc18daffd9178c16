"""The tool calls with literal arguments that a program surely makes, statement by statement."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from agentrt.calls import ToolCall

from .purity import PureNames, imports_only_known

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)
_WRITING = (ast.With, ast.AsyncWith, ast.AsyncFor, ast.ClassDef, ast.Delete)
_RAW = re.compile(r"\b[rR][bBfF]?['\"]|\b[bBfF][rR]['\"]")
_ESCAPE = re.compile(r"\\(?:[\\'\"abfnrtvxuUN0-7\n])?")


class Program:
    """Finds the calls of tools in code, of which it takes one top-level statement after the other.

    A call is found if it is surely made, by a statement outside of any block, its arguments are JSON
    literals, and its name still means the tool: an assignment, ``def``, ``class``, ``import`` or ``del`` of
    that name ends that. A coroutine function is called where it is awaited, so its call is found only there,
    or in an awaited ``gather``.

    Nothing is found after the first possible write, because what that changes has to be read after it, and
    nothing after a statement that is not Python. A write is a call of anything but speculable tools without
    an effect and what is known to be pure (:mod:`.purity`), any use of another tool, ``with``, ``class``,
    ``del``, a decorator, an import of an unknown module, and an assignment to an attribute or to an item of
    an unknown object. Operators, subscripts, attributes and iteration are reads.
    """

    def __init__(
        self,
        tools: Mapping[str, Sequence[str]],
        speculable: Collection[str] | None,
        *,
        coroutines: Collection[str] = (),
        with_effect: Collection[str] = (),
    ) -> None:
        """``tools`` are the names of the parameters of each tool; ``speculable`` None means all of them.

        ``coroutines`` are the tools that are coroutine functions, ``with_effect`` the speculable ones whose
        calls have an effect.
        """
        self._parameters = tools
        self._speculable = frozenset(tools if speculable is None else speculable)
        self._others = self._parameters.keys() - self._speculable
        self._coroutines = frozenset(coroutines)
        self._with_effect = frozenset(with_effect)
        self._shadowed: set[str] = set()
        self._pure = PureNames(self._parameters.keys() | self._speculable)
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
        parts = list(ast.walk(node))
        bound = {name for part in parts for name in _bound_names(part)}
        # What a simple statement assigns to is bound after its value is evaluated.
        inner = bound if value is None else {name for part in ast.walk(value) for name in _bound_names(part)}
        self._pure.hide(inner)
        placed = {id(call) for call in certain} | {id(call.func) for call in certain}
        self._over = self._over or any(id(part) not in placed and self._writes(part, inner) for part in parts)
        awaited = set() if value is None else set(_awaited_calls(value))
        for made in certain:
            self._over = self._over or self._is_write(made, inner) or self._is_other(made.func)
            call = None if self._over else self._literal_call(made)
            if call is not None and (call.name not in self._coroutines or id(made) in awaited):
                yield call
            self._over = self._over or (
                isinstance(made.func, ast.Name) and made.func.id in self._with_effect - self._shadowed
            )
        self._over = self._over or any(self._stores(part) for part in parts)
        self._shadowed |= bound
        self._pure.hide(bound)
        self._pure.assign(node)

    def _writes(self, node: ast.AST, bound: Collection[str]) -> bool:
        """Whether a part of a statement is a possible write, wherever it stands."""
        match node:
            case ast.Call():
                return self._is_write(node, bound)
            case ast.Await(value=value):
                return not isinstance(value, ast.Call)
            case ast.Import() | ast.ImportFrom():
                return not imports_only_known(node)
            case ast.FunctionDef(decorator_list=decorators) | ast.AsyncFunctionDef(decorator_list=decorators):
                return bool(decorators)
        return isinstance(node, _WRITING) or self._is_other(node)

    def _is_write(self, call: ast.Call, bound: Collection[str]) -> bool:
        if isinstance(call.func, ast.Name) and call.func.id in self._speculable - self._shadowed:
            return call.func.id in bound
        return not self._pure.calls(call)

    def _is_other(self, node: ast.AST) -> bool:
        """Whether a node names a tool that is not speculable."""
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                return name in self._others and name not in self._shadowed
        return False

    def _stores(self, node: ast.AST) -> bool:
        """Whether a node changes an object that may be more than a value of the code."""
        match node:
            case ast.Subscript(value=owner, ctx=ast.Store()):
                return not self._pure.is_plain(owner)
        return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)

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
        case ast.Dict(keys=keys, values=values):
            for part in itertools.chain.from_iterable(zip(keys, values, strict=True)):
                if part is not None:
                    yield from _certain_calls(part)
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


def _awaited_calls(node: ast.expr) -> Iterator[int]:
    """Yield the identities of the calls whose coroutines are awaited where they are made."""
    for part in ast.walk(node):
        if isinstance(part, ast.Await) and isinstance(part.value, ast.Call):
            yield id(part.value)
            if _name_of(part.value.func) in ("gather", "asyncio.gather"):
                yield from map(id, part.value.args)


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
    return ""


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
        case ast.MatchMapping(rest=str(name)) | ast.arg(arg=name):
            yield name


def parameters_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the names of the parameters of each tool, from schemas in the shape of chat completions."""
    functions = [tool.get("function", tool) for tool in tools]
    return {
        function["name"]: tuple((function.get("parameters") or {}).get("properties") or ())
        for function in functions
    }
