"""The wheel has every file, also where git could not make the symbolic links."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.project import PARTS, ROOT, checkout, files, python


def without_links(link: Path, target: str) -> None:
    """Make no link, as an archive without links."""


def links_as_text(link: Path, target: str) -> None:
    """Write the link as text, as git does on Windows where links are not allowed."""
    link.write_text(target, encoding="utf-8")


@pytest.mark.check
@pytest.mark.slow
@pytest.mark.parametrize("link", [Path.symlink_to, links_as_text, without_links])
def test_the_wheel_is_complete(link: Callable[[Path, str], None], tmp_path: Path) -> None:
    project = checkout(tmp_path / "project", link)
    built = python("-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, project)
    assert built.returncode == 0, built.stdout + built.stderr

    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in names if name.startswith("agentrt/")}
    assert package == {
        f"{PARTS[folder].replace('.', '/')}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder in PARTS
        for path in files(folder)
    }
    beside = {name.partition("/")[2] for name in names - package}
    assert beside == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
