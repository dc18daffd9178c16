"""Docstrings refer to names that exist, and the site shows them as Markdown."""

import ast
import builtins
import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

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


@pytest.fixture(scope="module")
def roles() -> ModuleType:
    """The Griffe extension of the site."""
    pytest.importorskip("griffe", reason="griffe is not installed here; make docs installs it")
    return of_the_site("roles")


def of_the_site(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "docs" / "site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = '''
class Boat:
    """A boat; :meth:`sail` moves it, as :class:`Motor.start` of :mod:`asyncio` does."""

    def sail(self):
        """Sail, until :attr:`Boat.crew` is tired::

            boat.sail()

        Then rest.

        Raises:
            ValueError: there is no wind.
        """

    def draw(self):
        """Draw it.

        ::

            \\\\_|_/ ~ ~
        """
'''


@pytest.fixture
def boat(roles: ModuleType, tmp_path: Path) -> dict[str, str]:
    """The docstrings of ``MODULE`` as the extension leaves them."""
    import griffe

    (tmp_path / "boats.py").write_text(MODULE, encoding="utf-8")
    loaded = griffe.load("boats", search_paths=[tmp_path], extensions=griffe.load_extensions(roles.Roles))
    boat = loaded["Boat"]
    return {item.name: item.docstring.value for item in (boat, boat["sail"], boat["draw"])}


def test_a_role_becomes_a_link_to_its_target(boat: dict[str, str]) -> None:
    assert '<autoref identifier="boats.Boat.sail" optional>`sail`</autoref>' in boat["Boat"]


def test_a_role_of_something_else_becomes_code(boat: dict[str, str]) -> None:
    assert "as `Motor.start` of `asyncio` does" in boat["Boat"]


def test_a_literal_block_becomes_a_fenced_one(boat: dict[str, str]) -> None:
    assert boat["sail"].startswith(
        "Sail, until `Boat.crew` is tired:\n\n```python\nboat.sail()\n```\n\nThen rest."
    )
    assert boat["draw"] == "Draw it.\n\n```text\n\\_|_/ ~ ~\n```\n"


def test_sections_are_left_to_griffe(boat: dict[str, str]) -> None:
    assert boat["sail"].endswith("Raises:\n    ValueError: there is no wind.")


def test_links_of_the_root_pages_lead_to_pages_of_the_site() -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed here; make docs installs it")
    hook = of_the_site("root_pages")

    assert hook.from_root("[a](docs/models.md#x), [b](LICENSE), [c](SECURITY.md)") == (
        "[a](models.md#x), [b](LICENSE.txt), [c](security.md)"
    )
    assert (
        hook.on_page_markdown("[a](../README.md#try-it), [b](models.md)")
        == "[a](start.md#try-it), [b](models.md)"
    )
