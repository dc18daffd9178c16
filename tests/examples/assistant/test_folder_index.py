from pathlib import Path

from agentrt.examples.assistant.folder_index import FolderIndex


def test_a_file_is_outdated_until_its_version_is_stored(tmp_path: Path) -> None:
    index = FolderIndex(tmp_path / "index.db")
    versions = {"a.txt": (1, 10), "b.txt": (1, 10)}
    assert index.outdated(versions) == ["a.txt", "b.txt"]
    index.store("a.txt", (1, 10), "about a")
    assert index.outdated(versions) == ["b.txt"]
    assert FolderIndex(tmp_path / "index.db").summaries() == {"a.txt": "about a"}
    assert index.outdated({"a.txt": (2, 10)}) == ["a.txt"]
    assert index.outdated({"a.txt": (1, 11)}) == ["a.txt"]
    index.store("a.txt", (2, 10), "about the new a")
    assert index.outdated({"a.txt": (2, 10)}) == []
    assert index.summaries() == {"a.txt": "about the new a"}
