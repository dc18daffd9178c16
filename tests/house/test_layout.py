"""The folders at the root import as one package, installed or not."""

import os

import pytest

from tests.house.project import PARTS, ROOT, files, imports, modules


def test_no_module_lies_in_a_folder_that_is_no_package() -> None:
    misplaced = [
        str(path.relative_to(ROOT)) for _, path in modules() if not (path.parent / "__init__.py").exists()
    ]

    assert misplaced == []


@pytest.mark.parametrize("folder", [folder for folder in PARTS if folder != "agentrt"])
def test_the_source_tree_has_a_link_to_each_part(folder: str) -> None:
    link = ROOT / "agentrt" / folder

    # Git for Windows may leave a link as a text file that holds its target.
    target = os.readlink(link) if link.is_symlink() else link.read_text(encoding="utf-8")
    assert target == f"../{folder}"


def test_the_parts_are_imported_by_their_own_names() -> None:
    bare = set(PARTS) - {"agentrt"}
    scripts = [
        (path.stem, path) for folder in ("tests", ".ci") for path in files(folder) if path.suffix == ".py"
    ]

    offenders = [
        f"{path.relative_to(ROOT)}:{imported.line} imports {imported.target}"
        for name, path in [*modules(), *scripts]
        for imported in imports(name, path)
        if imported.target.split(".")[0] in bare
    ]

    assert offenders == []
