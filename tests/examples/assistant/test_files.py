import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.files import Folder, TextFile


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    (root / "garden").mkdir(parents=True)
    (root / "garden" / "plan.md").write_text("The tulips go along the fence.\n")
    (root / "paint.txt").write_text("The kitchen is green.\n")
    (tmp_path / "secret.txt").write_text("tulips and the password\n")
    return root


@pytest.fixture
def folder(root: Path) -> Iterator[Folder]:
    folder = Folder(root)
    yield folder
    folder.close()


def test_files_are_found_by_name_and_text(folder: Folder) -> None:
    assert folder.search("tulips") == ["garden/plan.md"]
    assert folder.search("paint") == ["paint.txt"]
    assert folder.search("zeppelin") == []


def test_a_file_is_read_by_its_path(folder: Folder) -> None:
    assert folder.read("garden/plan.md") == TextFile("garden/plan.md", "The tulips go along the fence.")
    assert folder.read("./garden/../paint.txt").path == "paint.txt"


OUTSIDE = ["..", "../secret.txt", "garden/../../secret.txt", "/etc/passwd", "x/../../secret.txt", "\0"]


@pytest.mark.parametrize("path", [*OUTSIDE, "../files2/x", "{root}/paint.txt"])
def test_a_path_that_leads_outside_is_refused(folder: Folder, root: Path, path: str) -> None:
    with pytest.raises(ToolError, match="is outside the folder"):
        folder.read(path.format(root=root))


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links")
def test_symbolic_links_do_not_lead_outside(folder: Folder, root: Path) -> None:
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "away").symlink_to(root.parent, target_is_directory=True)
    (root / "loop").symlink_to(root / "loop")
    (root / "broken").symlink_to(root / "nothing")
    for path in ("link.txt", "away/secret.txt"):
        with pytest.raises(ToolError, match="is outside the folder"):
            folder.read(path)
    for path in ("loop", "broken"):
        with pytest.raises(ToolError, match=r"^no file at "):
            folder.read(path)
    assert folder.search("password") == []
    assert set(folder.versions()) == {"garden/plan.md", "paint.txt"}


@pytest.mark.parametrize("path", ["nope.txt", "garden", "", "garden/plan.md/x", "x" * 300])
def test_what_is_no_file_is_a_clear_error(folder: Folder, path: str) -> None:
    with pytest.raises(ToolError, match=r"^no file at "):
        folder.read(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_any_path_is_a_file_inside_or_a_clear_error(folder: Folder, path: str) -> None:
    with contextlib.suppress(ToolError):
        assert (folder.root / folder.read(path).path).is_relative_to(folder.root)


def test_binary_large_and_hidden_files_are_left_out(folder: Folder, root: Path) -> None:
    (root / "photo.jpg").write_bytes(b"tulips\0\xff")
    (root / "big.txt").write_bytes(b"tulips " * 200_000)
    (root / ".hidden").write_text("tulips")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("tulips")
    assert folder.search("tulips") == ["garden/plan.md"]
    for path in ("photo.jpg", "big.txt"):
        with pytest.raises(ToolError, match="is not a readable text file of at most 1 MB"):
            folder.read(path)


def test_changed_new_and_removed_files_are_noticed(folder: Folder, root: Path) -> None:
    before = folder.versions()
    (root / "garden" / "plan.md").write_text("Only roses this year.\n")
    (root / "new.txt").write_text("violets\n")
    (root / "paint.txt").unlink()
    assert folder.search("tulips") == folder.search("kitchen") == []
    assert folder.search("roses") == ["garden/plan.md"]
    assert folder.search("violets") == ["new.txt"]
    after = folder.versions()
    assert {path for path in after if after[path] != before.get(path)} == {"garden/plan.md", "new.txt"}
