"""The repository for the tests of this folder: its root, its packaging, its modules and their imports."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Folder at the root -> the package it imports as.
PARTS = {
    "agentrt": "agentrt",
    "adapters": "agentrt.adapters",
    "speculators": "agentrt.speculators",
    "runtime": "agentrt.runtime",
    "bench": "agentrt.bench",
    "examples": "agentrt.examples",
}

# The same for the code that trains the nano model, which is not installed.
TRAINING = {"training": "training"}

# The links of the source tree to its parts; text files where git cannot make links.
LINKS = {ROOT / "agentrt" / folder for folder in PARTS if folder != "agentrt"}


def files(folder: str) -> Iterator[Path]:
    """Yield every file under ``folder`` of the root except caches; links are not followed."""
    for directory, subfolders, names in os.walk(ROOT / folder):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        for name in sorted(names):
            path = Path(directory, name)
            if path not in LINKS:
                yield path


def modules(parts: Mapping[str, str] = PARTS) -> Iterator[tuple[str, Path]]:
    """Yield dotted name and path of every module of ``parts``, by default those of the package."""
    for folder, package in parts.items():
        for path in files(folder):
            if path.suffix == ".py":
                inner = path.relative_to(ROOT / folder).with_suffix("").parts
                yield ".".join((package, *(part for part in inner if part != "__init__"))), path


@dataclass(frozen=True)
class Import:
    """One imported module. ``lazy`` is true inside functions and in blocks for type checkers."""

    target: str
    lazy: bool
    line: int


@cache
def imports(name: str, path: Path) -> list[Import]:
    """Return everything that the module ``name`` imports, relative imports resolved.

    ``from package import thing`` gives both ``package`` and ``package.thing``: only running it could tell
    whether the thing is a module.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: list[Import] = []

    def walk(node: ast.AST, lazy: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, lazy, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                above = parents[: len(parents) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            found.append(Import(base, lazy, node.lineno))
            found.extend(Import(f"{base}.{alias.name}", lazy, node.lineno) for alias in node.names)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                walk(child, True)
            for child in node.orelse:
                walk(child, lazy)
            return
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            walk(child, inside)

    walk(ast.parse(path.read_text(encoding="utf-8"), str(path)), False)
    return found


def within(target: str, package: str) -> bool:
    """Return whether ``target`` is ``package`` or lies in it."""
    return target == package or target.startswith(package + ".")


def script(path: str) -> ModuleType:
    """Import a file of the project that no package holds."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a Python of this environment to its end."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, **options)


def checkout(folder: Path, link: Callable[[Path, str], None] = Path.symlink_to) -> Path:
    """Copy what the wheel is built from, with the links of the source tree as ``link`` makes them."""
    for part in PARTS:
        for path in files(part):
            copy = folder / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        if part != "agentrt":
            link(folder / "agentrt" / part, f"../{part}")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder
