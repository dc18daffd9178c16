from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.cli.main import app
from agentrt.errors import ConfigurationError
from agentrt.runtime.model.gguf import cache
from agentrt.runtime.model.gguf.file_format import read_source
from agentrt.runtime.model.hub.names import HubName, parse_name
from agentrt.runtime.model.hub.pulled import pulled_models, remember_pulled
from agentrt.runtime.model.hub.recommended import RECOMMENDED

pytestmark = pytest.mark.real_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "agentrt" / "models"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["models", *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_an_empty_cache(folder: Path) -> None:
    assert run() == (0, f"No model was pulled, and no GGUF file has been converted in {folder}.\n")


def test_converted_files_are_listed_and_removed(folder: Path, tmp_path: Path) -> None:
    for seed, name in enumerate(("One", "Two")):
        write_random_gguf(tmp_path / f"{name}.gguf", ModelShape("qwen2", 1, 64, 64, 2, 1, 512), seed)
        cache.convert_gguf(read_source(tmp_path / f"{name}.gguf"))
    code, listed = run()
    assert code == 0
    assert "One" in listed
    assert "Two" in listed
    assert "kB" in listed
    assert str(folder) in listed
    assert run("--remove", "Three")[0] == 2
    code, removed = run("--remove", "One")
    assert (code, removed.split()[:2]) == (0, ["removed", "One"])
    assert "One" not in run()[1]
    assert run("--remove-all")[0] == 0
    assert "no GGUF file" in run()[1]


def test_pulled_models_are_listed_and_removed(folder: Path, tmp_path: Path) -> None:
    hub, download = tmp_path / "hf" / "x.gguf", folder / "downloads" / "0f" / "y.gguf"
    url = "https://a.example/y.gguf"
    for name, file in (("Qwen/X-GGUF:q4_k_m", hub), (url, download)):
        file.parent.mkdir(parents=True)
        file.touch()
        remember_pulled(name, file)
    listed = run()[1]
    assert all(each in listed for each in ("Qwen/X-GGUF:q4_k_m", str(hub), url, str(download)))
    code, removed = run("--remove", "Qwen/X-GGUF:q4_k_m")
    assert code == 0
    assert "stay in the hub's cache" in removed
    assert "hf cache rm model/Qwen/X-GGUF\n" in removed
    assert hub.exists()
    assert list(pulled_models()) == [url]
    assert run("--remove-all") == (0, f"removed {url}\n")
    assert not download.parent.exists()
    assert not pulled_models()


def test_a_model_that_cannot_be_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    remember_pulled("a/b:q4", folder)

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ConfigurationError, match=r"cannot be deleted \(Permission denied"):
        CliRunner().invoke(app, ["models", "--remove-all"], catch_exceptions=False)


def test_a_file_of_two_addresses_stays_until_both_are_removed(folder: Path) -> None:
    file = folder / "downloads" / "0f" / "y.gguf"
    file.parent.mkdir(parents=True)
    file.touch()
    for name in ("https://a.example/y.gguf", "https://b.example/y.gguf"):
        remember_pulled(name, file)
    run("--remove", "https://a.example/y.gguf")
    assert file.exists()
    assert list(pulled_models()) == ["https://b.example/y.gguf"]
    run("--remove", "https://b.example/y.gguf")
    assert not file.parent.exists()


@pytest.mark.parametrize("removal", [["--remove-all"], ["--remove", "x"]])
def test_recommended_and_removal_exclude_each_other(folder: Path, removal: list[str]) -> None:
    code, output = run("--recommended", *removal)
    assert code == 2
    assert "--recommended" in output


def test_recommended_models_are_legible_in_80_columns_and_can_be_pulled() -> None:
    listed = CliRunner().invoke(app, ["models", "--recommended"], env={"COLUMNS": "80"}).output
    assert max(map(len, listed.splitlines())) <= 80
    for model in RECOMMENDED:
        assert isinstance(parse_name(model.name), HubName)
        assert f"{model.name}\n" in listed
        assert f"{model.license}: {model.good_for}\n" in listed
    assert [model.gigabytes for model in RECOMMENDED] == sorted(model.gigabytes for model in RECOMMENDED)
    assert "agentrt pull NAME" in listed
