"""What a bench imports is asked for before it works."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.cli.bench import NEEDED_EXTRAS, BenchName
from agentrt.extras import INCLUDES, MODULES
from tests.house.project import ROOT

BENCHES = list(BenchName)
ADAPTERS = {"agentrt.adapters.langchain": "langgraph", "agentrt.adapters.openai": "openai"}
CORE = {"agentrt", "pydantic"}  # with pydantic a dependency of agentrt itself
# Imported where `--model`, or a GGUF file as `--model`, is given, which asks for the extra `bench`.
ONLY_WITH_A_MODEL = {
    BenchName.SCHEDULER: {"httpx", "starlette", "uvicorn", "xllamacpp"},
    BenchName.ENGINE: {"xllamacpp"},
}

BLOCKED = """
import json, sys, types
from typer.testing import CliRunner

name, blocked = sys.argv[1], json.loads(sys.argv[2])
ran = []
main = types.ModuleType(f"agentrt.bench.{name}.main")
main.run = lambda **options: ran.append(options)
sys.modules[main.__name__] = main
from agentrt.cli.main import app

errors = {}
for module in blocked:
    before = {key: each for key, each in sys.modules.items() if key.partition(".")[0] == module}
    sys.modules.update(dict.fromkeys(before, None), **{module: None})
    errors[module] = repr(CliRunner().invoke(app, ["bench", name, "--quick"]).exception)
    del sys.modules[module]
    sys.modules.update(before)
print(json.dumps([errors, len(ran)]))
"""


def extras(name: BenchName) -> set[str]:
    found: set[str] = set()
    waiting: list[str] = [*NEEDED_EXTRAS[name], "cli"]
    while waiting:
        extra = waiting.pop()
        found.add(extra)
        waiting += INCLUDES.get(extra, ())
    return found


def brought(found: set[str]) -> set[str]:
    return {module for extra in found for module in MODULES[extra]}


def imports(path: Path) -> Iterator[str]:
    """The full names that a file imports anywhere in it, without what only type checkers see."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    package = ["agentrt", *path.relative_to(ROOT).parts[:-1]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imported(name: BenchName) -> set[str]:
    """All that a bench's main module and the bench modules that it imports import."""
    found: set[str] = set()
    waiting = [f"agentrt.bench.{name}.main"]
    while waiting:
        path = ROOT.joinpath(*waiting.pop().split(".")[1:]).with_suffix(".py")
        if path.is_file():
            new = {each for each in imports(path) if each not in found}
            found |= new
            waiting += [each for each in new if each.startswith("agentrt.bench.")]
    return found


@pytest.mark.parametrize("name", BENCHES)
def test_its_extras_bring_what_it_imports(name: BenchName) -> None:
    found = imported(name)
    assert "agentrt.errors" in found  # it has followed imports
    adapters = {extra for module, extra in ADAPTERS.items() if module in found}
    assert adapters <= extras(name)
    packages = {each.partition(".")[0] for each in found} - sys.stdlib_module_names - CORE
    assert packages - ONLY_WITH_A_MODEL.get(name, set()) <= brought(extras(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHES)
def test_without_a_package_it_does_not_begin(name: BenchName) -> None:
    modules = sorted(brought(extras(name)) - brought({"cli"}))
    script = [sys.executable, "-c", BLOCKED, name, json.dumps(modules)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors, runs = json.loads(done.stdout)
    assert runs == 0
    for module, error in errors.items():
        assert f"{module} is not installed" in error
        assert "pip install" in error
