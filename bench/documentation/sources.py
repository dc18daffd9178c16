"""Digests of what a figure is measured of: folders of source without comments, and files of weights."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

_DIGITS: Final = 12
_IGNORED: Final = frozenset({"__pycache__", ".pyc"})


def digests_of(root: Path, rooms: Iterable[str]) -> dict[str, str]:
    """Return the digest of each room, a path in the clone at ``root``; empty for one that is gone."""
    return {room: _digest_of_room(root / room) for room in sorted(rooms)}


def digest_of(content: bytes) -> str:
    """Return the first digits of the SHA-256 of ``content``."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def digest_of_file(path: Path) -> str:
    """Return the first digits of a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]


def _digest_of_room(room: Path) -> str:
    files = [room] if room.is_file() else sorted(each for each in room.rglob("*") if each.is_file())
    if not files:
        return ""
    digest = hashlib.sha256()
    for file in files:
        if not _IGNORED & {file.suffix, *file.parts}:
            digest.update(file.relative_to(room.parent).as_posix().encode())
            digest.update(_content(file, file.stat().st_mtime_ns))
    return digest.hexdigest()[:_DIGITS]


@cache
def _content(file: Path, changed_ns: int) -> bytes:
    """Return the digest of a file; of Python that of its syntax tree without docstrings, which do not count.

    It is computed once for a file that was last changed at ``changed_ns``.
    """
    content = file.read_bytes()
    if file.suffix == ".py":
        content = repr(_tree(ast.parse(content))).encode()
    return hashlib.sha256(content).digest()


def _tree(node: Any) -> Any:
    # Not ast.dump: which empty fields it writes differs between versions of Python.
    if isinstance(node, list):
        return [_tree(each) for each in node if not _is_docstring(each)]
    if not isinstance(node, ast.AST):
        return node
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
    return type(node).__name__, [(name, _tree(value)) for name, value in fields]


def _is_docstring(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
