from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.cli.main import app
from agentrt.runtime.gguf import cache
from agentrt.runtime.gguf.source import read_source
from agentrt.runtime.hub.names import HubName, parse_name
from agentrt.runtime.hub.recommended import RECOMMENDED

pytestmark = pytest.mark.real_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "models"
    monkeypatch.setattr(cache, "default_cache_folder", lambda: folder)
    return folder


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["models", *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_an_empty_cache(folder: Path) -> None:
    assert run() == (0, f"No GGUF file has been converted in {folder}.\n")


def test_converted_files_are_listed_and_removed(folder: Path, tmp_path: Path) -> None:
    for seed, name in enumerate(("One", "Two")):
        write_random_gguf(tmp_path / f"{name}.gguf", ModelShape("qwen2", 1, 64, 64, 2, 1, 512), seed)
        cache.convert_gguf(read_source(tmp_path / f"{name}.gguf"))
    code, listed = run()
    assert code == 0
    assert "One" in listed
    assert "Two" in listed
    assert "MB" in listed
    assert str(folder) in listed
    assert run("--remove", "Three")[0] == 2
    code, removed = run("--remove", "One")
    assert (code, removed.split()[:2]) == (0, ["removed", "One"])
    assert "One" not in run()[1]
    assert run("--remove-all")[0] == 0
    assert "No GGUF file" in run()[1]


def test_recommended_models_are_listed_with_names_that_can_be_pulled() -> None:
    code, listed = run("--recommended")
    assert code == 0
    for model in RECOMMENDED:
        assert isinstance(parse_name(model.name), HubName)
        assert model.name in listed
        assert model.good_for in listed
    assert [model.gigabytes for model in RECOMMENDED] == sorted(model.gigabytes for model in RECOMMENDED)
    assert "agentrt pull NAME" in listed
