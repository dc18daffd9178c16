"""The wheel has every file, also where git could not make the symbolic links."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.project import PARTS, ROOT, files

pytestmark = [pytest.mark.check, pytest.mark.slow]


def without_links(link: Path, target: str) -> None:
    """Make no link, as an archive without links."""


def links_as_text(link: Path, target: str) -> None:
    """Write the link as text, as git does on Windows where links are not allowed."""
    link.write_text(target, encoding="utf-8")


def real_links(link: Path, target: str) -> None:
    link.symlink_to(target)


@pytest.fixture(params=[real_links, links_as_text, without_links])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the files that the wheel is built from."""
    root = tmp_path / "project"
    for folder in PARTS:
        for path in files(folder):
            copy = root / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        if folder != "agentrt":
            request.param(root / "agentrt" / folder, f"../{folder}")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    return root


def test_the_wheel_is_complete(checkout: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(checkout),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
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
