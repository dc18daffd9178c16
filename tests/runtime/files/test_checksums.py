"""Digests of model files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.errors import ModelFormatError
from agentrt.runtime.files.checksums import CHECKSUMS, check_files, read_checksums, write_checksums
from agentrt.runtime.nano import DRAFT_DIRECTORY, MODEL_DIRECTORY

GRAPHS = [f"openvino_{graph}.{suffix}" for graph in ("model", "tokenizer") for suffix in ("xml", "bin")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (*GRAPHS, "config.json"):
        (tmp_path / name).write_text(name)
    write_checksums(tmp_path)
    return tmp_path


@pytest.mark.parametrize("directory", [MODEL_DIRECTORY, DRAFT_DIRECTORY])
def test_the_embedded_models_have_their_digests(directory: Path) -> None:
    stated = read_checksums(directory)
    assert stated.keys() == {file.name for file in directory.glob("openvino_*")}
    check_files(directory, stated)


def test_graphs_have_digests_and_settings_may_be_changed(folder: Path) -> None:
    assert read_checksums(folder).keys() == set(GRAPHS)
    (folder / "config.json").write_text("{}")
    check_files(folder, [*GRAPHS, "config.json"])


@pytest.mark.parametrize("name", GRAPHS)
def test_a_changed_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text(name.upper())
    with pytest.raises(ModelFormatError, match=rf"{name} is damaged: it differs from its digest"):
        check_files(folder, GRAPHS)
    check_files(folder, set(GRAPHS) - {name})
    (folder / name).unlink()
    with pytest.raises(ModelFormatError, match=name):
        check_files(folder, GRAPHS)


def test_a_folder_without_digests_is_not_checked(folder: Path) -> None:
    (folder / CHECKSUMS).unlink()
    assert read_checksums(folder) == {}
    check_files(folder, GRAPHS)


def test_the_format_is_that_of_sha256sum(folder: Path) -> None:
    digest = "0" * 64
    (folder / CHECKSUMS).write_bytes(
        f"{digest}  a.bin\n{digest} *b.bin\r\n{digest}  ../c.bin\n{digest}\n12  d\n".encode() + b"\xff\0"
    )
    assert read_checksums(folder) == {"a.bin": digest, "b.bin": digest}
