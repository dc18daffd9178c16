"""`make docs` fails on broken links; docstrings and the pages at the root become pages of the site."""

import json
import os
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.project import ROOT, python, script

pytestmark = pytest.mark.check


@pytest.mark.parametrize(
    ("link", "warning"),
    [
        ("[a](index.md)", None),
        ("[a](nowhere.md)", "link 'nowhere.md', but the target is not found"),
        ("[a](index.md#nowhere)", "#nowhere', but there is no such anchor"),
    ],
)
def test_a_broken_link_fails_make_docs(link: str, warning: str | None, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    pytest.importorskip("mkdocs", reason="mkdocs is not installed here; make docs installs it")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for key in ("nav", "hooks", "plugins", "exclude_docs"):
        del config[key]
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Boats\n\n{link}\n", encoding="utf-8")
    (command,) = re.findall(r"-m (mkdocs .*)", (ROOT / "Makefile").read_text(encoding="utf-8"))

    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = python("-m", *shlex.split(command), cwd=tmp_path, env=environment)
    assert (built.returncode == 0) == (warning is None)
    assert (warning or "") in built.stderr


def of_the_site(name: str) -> ModuleType:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed here; make docs installs it")
    return script(f"docs/site/{name}.py")


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


def test_docstrings_become_markdown(tmp_path: Path) -> None:
    griffe = pytest.importorskip("griffe", reason="griffe is not installed here; make docs installs it")
    (tmp_path / "boats.py").write_text(MODULE, encoding="utf-8")
    extensions = griffe.load_extensions(of_the_site("roles").Roles)
    boat = griffe.load("boats", search_paths=[tmp_path], extensions=extensions)["Boat"]
    assert '<autoref identifier="boats.Boat.sail" optional>`sail`</autoref>' in boat.docstring.value
    assert "as `Motor.start` of `asyncio` does" in boat.docstring.value  # of something else
    assert boat["sail"].docstring.value == (
        "Sail, until `Boat.crew` is tired:\n\n```python\nboat.sail()\n```\n\nThen rest.\n\n"
        "Raises:\n    ValueError: there is no wind."
    )
    assert boat["draw"].docstring.value == "Draw it.\n\n```text\n\\_|_/ ~ ~\n```\n"


def test_links_of_the_root_pages_lead_to_pages_of_the_site() -> None:
    hook = of_the_site("root_pages")

    assert hook.from_root("[a](docs/models.md#x), [b](LICENSE), [c](SECURITY.md)") == (
        "[a](models.md#x), [b](LICENSE.txt), [c](security.md)"
    )
    assert (
        hook.on_page_markdown("[a](../README.md#try-it), [b](models.md)")
        == "[a](start.md#try-it), [b](models.md)"
    )
    assert hook.on_page_markdown("[a](../../SECURITY.md)") == "[a](../security.md)"  # of a page in a folder


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("# A\n\nOne thing: it floats. It is old.\n", "One thing: it floats."),
        ("# A\n\n`boat sail` sails. `boat row` rows.\n", "`boat sail` sails."),
        ("# A\n\n```sh\npip install boat\n\nboat sail\n```\n\nThen it sails.\n", "Then it sails."),
        ("# A\n\n- a list\n\n| a | table |\n\n**Boats** are [here](b.md):\n", "**Boats** are here"),
    ],
)
def test_the_index_has_the_first_sentence_of_each_page(page: str, sentence: str) -> None:
    assert of_the_site("markdown_pages").summary(page) == sentence


def test_the_site_has_the_markdown_of_each_page_and_an_index_of_them(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed here; make docs installs it")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    (tmp_path / "docs" / "boats").mkdir(parents=True)
    pages = {
        "index.md": "# Harbour\n\n![A picture](a.svg)\n\nThe [pier](boats/pier.md) is\nlong. It is old.\n",
        "boats/pier.md": "# Pier\n\nWhere boats lie:\n\n- one\n",
        "api.md": "# Code\n\n::: boats\n",
    }
    for path, text in pages.items():
        (tmp_path / "docs" / path).write_text(text, encoding="utf-8")
    config = {
        "site_name": "Boats",
        "site_description": "All of them.",
        "hooks": [str(ROOT / "docs" / "site" / "markdown_pages.py")],
        "nav": ["boats/pier.md", "index.md", "api.md"],
    }
    (tmp_path / "mkdocs.yml").write_text(json.dumps(config), encoding="utf-8")

    build(load_config(str(tmp_path / "mkdocs.yml")))

    site = tmp_path / "site"
    assert (site / "llms.txt").read_text(encoding="utf-8") == (
        "# Boats\n\n> All of them.\n\n## Pages\n\n"
        "- [Pier](boats/pier.md): Where boats lie\n"
        "- [Harbour](index.md): The pier is long.\n"
    )
    assert (site / "boats" / "pier.md").read_text(encoding="utf-8") == pages["boats/pier.md"]
    assert not (site / "api.md").exists()
