import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.files import Folder, TextFile
from agentrt.examples.assistant.sources import Sources


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    (root / "garden").mkdir(parents=True)
    (root / "garden" / "plan.txt").write_text("The tulips go along the fence.\n")
    (root / "paint.txt").write_text("The kitchen is green.\n")
    (root / "note.md").write_text("A note about tulips.\n")
    (tmp_path / "secret.txt").write_text("tulips and the password\n")
    return root


@pytest.fixture
def folder(root: Path) -> Iterator[Folder]:
    folder = Folder(Sources([root]))
    yield folder
    folder.close()


def test_files_are_found_by_name_and_text(folder: Folder) -> None:
    assert folder.search("tulips") == ["garden/plan.txt"]
    assert folder.search("paint") == ["paint.txt"]
    assert folder.search("zeppelin") == []
    assert folder.all() == ["paint.txt", "garden/plan.txt"]


def test_a_file_is_read_by_its_path(folder: Folder) -> None:
    assert folder.read("garden/plan.txt") == TextFile("garden/plan.txt", "The tulips go along the fence.")
    assert folder.read(" ./garden/../paint.txt").path == "paint.txt"


def test_a_name_is_enough_if_one_file_has_it(folder: Folder, root: Path) -> None:
    assert folder.read("plan.txt").path == "garden/plan.txt"
    (root / "house").mkdir()
    (root / "house" / "plan.txt").write_text("Another one.")
    with pytest.raises(ToolError, match=r"^2 files are at plan\.txt"):
        folder.read("plan.txt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_texts_in_usual_encodings(root: Path, encoding: str) -> None:
    (root / "cafe.txt").write_bytes("Café für zwei: 3 €".encode(encoding))
    with contextlib.closing(Folder(Sources([root]))) as folder:
        assert folder.search("café") == ["cafe.txt"]
        assert folder.read("cafe.txt").text == "Café für zwei: 3 €"


OUTSIDE = ["..", "../secret.txt", "garden/../../secret.txt", "/etc/passwd", "x/../../secret.txt"]


@pytest.mark.parametrize("path", [*OUTSIDE, "../files2/x", "{root}/paint.txt"])
def test_a_path_that_leads_outside_is_refused(folder: Folder, root: Path, path: str) -> None:
    with pytest.raises(ToolError, match="is outside the folder"):
        folder.read(path.format(root=root))


@pytest.mark.parametrize("path", ["nope.txt", "garden", "", "\0", "note.md", "garden/plan.txt/x", "x" * 300])
def test_what_is_no_file_is_a_clear_error(folder: Folder, path: str) -> None:
    with pytest.raises(ToolError, match=r"^no file at "):
        folder.read(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_any_path_is_a_file_inside_or_a_clear_error(folder: Folder, path: str) -> None:
    with contextlib.suppress(ToolError):
        assert folder.read(path).path in folder.all()


def test_changed_new_and_removed_files_are_noticed(folder: Folder, root: Path) -> None:
    (root / "garden" / "plan.txt").write_text("Only roses this year.\n")
    (root / "new.txt").write_text("violets\n")
    (root / "paint.txt").unlink()
    assert folder.search("tulips") == folder.search("kitchen") == []
    assert folder.search("roses") == ["garden/plan.txt"]
    assert folder.search("violets") == ["new.txt"]
