"""Whether a node of a graph may interrupt it, as far as its code and the objects that it uses show."""

from __future__ import annotations

import functools
import gc
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from .node_code import attribute, closure_of, is_marked, top_package

_NAMES = frozenset({"interrupt", "GraphInterrupt", "NodeInterrupt"})
_LIBRARIES = frozenset({"agentrt", "langchain", "langchain_core", "langgraph", "langsmith"})
_INSTALLED = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib"))
_PARTS = ("func", "afunc", "bound", "steps", "steps__", "nodes")
"""The attributes in which runnables and graphs keep what they run."""
_PLAIN = ("builtins", "functools", "types")
"""The modules of containers, methods, partial functions and descriptors."""
_MAX_VISITED = 5000


def may_interrupt(node: Any) -> bool:
    """Whether code that ``node`` reaches refers to ``interrupt`` or ``GraphInterrupt`` of LangGraph.

    ``node`` is a function, a callable object or a runnable. True also if it has no code that can be read, or
    reaches more than 5000 objects. What :func:`~.node_code.mark` has marked is taken to be free of
    interrupts, and so are tools, models, and packages that are installed beside the one of ``node``.
    """
    return _Search().finds_interrupt(node)


class _Search:
    """One search through the objects that a node reaches."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # the objects are kept: the id of a dropped one may be used again
        self._packages: set[str] = set()
        self._modules: set[str] = set()

    def finds_interrupt(self, node: Any) -> bool:
        roots = list(_roots(node))
        for root in roots:
            module = _module_of(root)
            self._modules.add(module)
            self._packages.add(top_package(module))
        if any(_is_unreadable(root) for root in roots):
            return True
        left = [node]
        while left:
            value = left.pop()
            if id(value) in self._seen or _marked(value):
                continue
            self._seen[id(value)] = value
            if len(self._seen) > _MAX_VISITED or _is_interrupt(value):
                return True
            if isinstance(value, FunctionType) and self._is_own(_module_of(value)):
                names = set(_names(value.__code__))
                if names & _NAMES or _looks_up(value, names):
                    return True
            left += self._reached(value)
        return False

    def _reached(self, value: Any) -> Iterable[Any]:
        """Return what ``value`` uses and is not data."""
        if isinstance(value, BaseTool | BaseLanguageModel | ModuleType):
            return ()
        own = self._is_own(_module_of(value))
        if isinstance(value, FunctionType):
            parts = self._parts(value, own=own)
        elif isinstance(value, type):
            classes = [each for each in value.__mro__ if own and self._is_own(each.__module__)]
            parts = (member for each in classes for member in vars(each).values())
        elif isinstance(value, Runnable) and not own:
            parts = (getattr(value, name, None) for name in _PARTS)
        else:
            # What the object refers to, without asking it: a proxy would answer for another.
            parts = iter(gc.get_referents(value) if own or type(value).__module__ in _PLAIN else ())
        return filter(_is_searched, parts)

    def _parts(self, function: FunctionType, *, own: bool) -> Iterator[Any]:
        yield from closure_of(function) if own else filter(_is_composed, closure_of(function))
        yield from vars(function).values()  # with __wrapped__, which decorators set
        if own:
            yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
            yield from self._named(function)

    def _named(self, function: FunctionType) -> Iterator[Any]:
        """Yield the globals that the code of ``function`` names, and the members of modules among them."""
        names = list(_names(function.__code__))
        for name in names:
            value = function.__globals__.get(name, sys.modules.get(name))
            yield value
            if isinstance(value, ModuleType) and self._is_own(value.__name__):
                yield from (vars(value).get(member) for member in names)

    def _is_own(self, module: str) -> bool:
        """Whether a module has the user's code: the node's, or that of another package not installed."""
        package = top_package(module)
        if module in self._modules:
            return package not in _LIBRARIES or package == "agentrt"
        if package in _LIBRARIES or package in sys.stdlib_module_names:
            return False
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        return package in self._packages or not file.startswith(_INSTALLED)


def _roots(node: Any) -> Iterator[Any]:
    """Yield the callables that a node was made of."""
    while hasattr(node, "bound"):
        node = node.bound
    given = [each for name in ("func", "afunc") if (each := getattr(node, name, None)) is not None]
    if given:
        for each in given:
            yield from _roots(each)
    elif not _marked(node):
        yield node


def _is_unreadable(root: Any) -> bool:
    """Whether a callable has no Python code, and does not come from Python or a known library."""
    known = isinstance(root, FunctionType | MethodType | type | Runnable)
    if known or any(isinstance(vars(each).get("__call__"), FunctionType) for each in type(root).__mro__):
        return False
    package = top_package(_module_of(root))
    return package not in _LIBRARIES and package not in sys.stdlib_module_names


def _module_of(value: Any) -> str:
    """Return the name of the module whose code ``value`` is, or whose class it is an instance of."""
    if isinstance(value, FunctionType):
        return str(value.__globals__.get("__name__", ""))  # wrappers copy __module__
    if isinstance(value, MethodType):
        return _module_of(value.__func__)
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _marked(value: Any) -> bool:
    """Whether a callable, or the object whose method it is, is declared to decide nothing."""
    return is_marked(value) or is_marked(attribute(value, "__self__"))


def _is_interrupt(value: Any) -> bool:
    from langgraph.errors import GraphInterrupt
    from langgraph.types import interrupt

    return value is interrupt or (isinstance(value, type) and issubclass(value, GraphInterrupt))


def _looks_up(function: FunctionType, names: set[str]) -> bool:
    """Whether the code uses ``getattr`` and a module of LangGraph: it may look up any name in it."""
    values = [*map(function.__globals__.get, names), *closure_of(function)]
    modules = [value.__name__ for value in values if isinstance(value, ModuleType)]
    return "getattr" in names and any(top_package(name) == "langgraph" for name in modules)


def _is_composed(value: Any) -> bool:
    """Whether a library's function that has ``value`` in its closure may call it."""
    return isinstance(value, FunctionType | MethodType | functools.partial | Runnable)


def _is_searched(value: Any) -> bool:
    return value is not None and not isinstance(value, str | bytes | int | float)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
