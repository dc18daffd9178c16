"""A Griffe extension: the roles and literal blocks of docstrings as Markdown.

Docstrings mark references with roles (``:class:`Turn```) and code with literal blocks (``::``), as editors
and ``help()`` show them well. The site is Markdown: a role becomes a link where the site documents its
target, and a literal block becomes a fenced one.
"""

from __future__ import annotations

import ast
import contextlib
import re
import textwrap
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([\w.]+)`")
_LITERAL_BLOCK = re.compile(
    r"^(?P<lead>.*?)[ ]*(?P<mark>::)\n\n(?P<block>(?:[ ]{4}.*\n|[ ]*\n)*[ ]{4}.*(?:\n|$))", re.M
)


class Roles(griffe.Extension):
    """Rewrites the docstrings of a package once all of its modules are loaded."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Rewrite each docstring of ``pkg``."""
        _rewrite(pkg)


def _rewrite(scope: griffe.Object) -> None:
    if scope.docstring:
        scope.docstring.value = markdown(scope.docstring.value, scope)
    for member in scope.members.values():
        if not member.is_alias:
            _rewrite(member)  # type: ignore[arg-type]


def markdown(text: str, scope: griffe.Object) -> str:
    """Return the docstring ``text`` of ``scope`` as Markdown."""
    return _ROLE.sub(lambda found: _reference(found[1], scope), _LITERAL_BLOCK.sub(_fenced, text))


def _fenced(found: re.Match[str]) -> str:
    lead = found["lead"]
    introduction = f"{lead}:\n\n" if lead.strip() else ""
    indent = " " * (len(lead) - len(lead.lstrip())) if lead.strip() else lead
    code = textwrap.dedent(found["block"]).strip("\n")
    block = f"```{_language(code)}\n{code}\n```\n"
    return introduction + textwrap.indent(block, indent)


def _language(code: str) -> str:
    try:
        ast.parse(code)
    except SyntaxError:
        return "text"
    return "python"


def _reference(name: str, scope: griffe.Object) -> str:
    path = _path_of(name, scope)
    code = f"`{name.removeprefix('.')}`"
    return code if path is None else f'<autoref identifier="{path}" optional>{code}</autoref>'


def _path_of(name: str, scope: griffe.Object) -> str | None:
    """Return the dotted path of what ``name`` means in ``scope``; None if it is not of this package."""
    first, _, rest = name.partition(".")
    place: griffe.Object | None = scope
    while place is not None:
        with contextlib.suppress(griffe.NameResolutionError):
            found = _canonical(f"{place.resolve(first)}.{rest}".rstrip("."), scope)
            if found is not None:
                return found
        place = place.parent if isinstance(place.parent, griffe.Object) else None
    return _canonical(name, scope)


def _canonical(path: str, scope: griffe.Object) -> str | None:
    try:
        return str(scope.modules_collection[path].canonical_path)
    except (KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None
