from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ModelFormatError, ModelNotFoundError
from agentrt.runtime.model.directory import (
    ModelDirectory,
    find_model,
    open_model_directory,
    summarize_model,
)
from tests.runtime.tiny import tiny_gguf, tiny_model


@pytest.fixture
def broken(tmp_path: Path, nano_directory: ModelDirectory) -> Path:
    """A copy of the nano model that a test may damage."""
    return shutil.copytree(nano_directory.path, tmp_path / "model")


def test_embedded_model(nano_directory: ModelDirectory) -> None:
    assert nano_directory.model_id == "nano"
    assert nano_directory.context_length == 2048
    assert nano_directory.end_token_ids == {2}
    assert nano_directory.graph.is_file()
    assert open_model_directory("nano-draft").model_id == "nano-draft"


def test_a_path_opens_the_same_model(broken: Path) -> None:
    assert open_model_directory(broken).model_id == "model"
    assert open_model_directory(str(broken)).end_token_ids == {2}


@pytest.mark.parametrize("name", ["nanoo", "/no/such/directory"])
def test_unknown_name(name: str) -> None:
    with pytest.raises(ModelNotFoundError, match=r"nano.*GGUF"):
        open_model_directory(name)


@pytest.mark.parametrize("model", [None, 5, b"nano", ""])
def test_neither_a_name_nor_a_path(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFoundError, match=r"names no model.*'nano'.*GGUF"):
        open_model_directory(model)


def test_the_error_of_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ModelNotFoundError, match="'nano', 'nano-draft'"):
        open_model_directory("llama")


def test_a_file_is_not_a_model(broken: Path) -> None:
    with pytest.raises(ModelFormatError, match="optimum-cli export openvino"):
        open_model_directory(broken / "openvino_model.xml")


@pytest.mark.parametrize("name", ["models", "model.gguf"])
@pytest.mark.parametrize("open_or_summarize", [open_model_directory, summarize_model])
def test_a_directory_of_gguf_files_is_refused_by_their_names(
    tmp_path: Path, name: str, open_or_summarize: Callable[[Path], object]
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "One.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFormatError, match=r"holds One\.gguf\. Name that file: .*One\.gguf$"):
        open_or_summarize(folder)
    (folder / "Two.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFormatError, match=r"2 GGUF files: One\.gguf, Two\.gguf\. Name the one"):
        open_or_summarize(folder)


@pytest.mark.parametrize(
    ("file", "fix"),
    [
        ("openvino_model.xml", "optimum-cli"),
        ("openvino_model.bin", "optimum-cli"),
        ("openvino_tokenizer.xml", "convert_tokenizer"),
        ("openvino_detokenizer.bin", "convert_tokenizer"),
        ("config.json", "Copy it"),
    ],
)
def test_missing_file_is_named(broken: Path, file: str, fix: str) -> None:
    (broken / file).unlink()
    with pytest.raises(ModelFormatError, match=rf"(?s){file}.*{fix}"):
        open_model_directory(broken)


@pytest.mark.parametrize("file", ["openvino_model.bin", "openvino_tokenizer.bin", "openvino_detokenizer.bin"])
@pytest.mark.parametrize("cut", [lambda size: size - 1, lambda size: size // 2, lambda size: 0])
def test_truncated_weights(broken: Path, file: str, cut: Callable[[int], int]) -> None:
    weights = broken / file
    with weights.open("r+b") as stream:
        stream.truncate(cut(weights.stat().st_size))
    with pytest.raises(ModelFormatError, match=rf"{file} is truncated"):
        open_model_directory(broken)


def test_truncated_graph(broken: Path) -> None:
    graph = broken / "openvino_model.xml"
    graph.write_bytes(graph.read_bytes()[:-2000])
    with pytest.raises(ModelFormatError, match=r"openvino_model\.xml is truncated"):
        open_model_directory(broken)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: re.sub(rb'offset="(\d+)"\s+size="(\d+)"', rb'size="\2" offset="9\1"', text),
        lambda text: text.replace(b'offset="', b'offset="' + b"1" * 5000, 1),
        lambda text: text.replace(b'size="', b'size="' + b"9" * 18, 1),
    ],
)
def test_constants_beyond_the_weights(broken: Path, damage: Callable[[bytes], bytes]) -> None:
    graph = broken / "openvino_model.xml"
    graph.write_bytes(damage(graph.read_bytes()))
    with pytest.raises(ModelFormatError, match=r"is truncated|lies at an impossible byte"):
        open_model_directory(broken)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json", "more"])
@pytest.mark.parametrize("look", [summarize_model, open_model_directory])
def test_a_fifo_is_refused_and_not_waited_for(broken: Path, name: str, look: Callable[[Path], Any]) -> None:
    (broken / name).unlink(missing_ok=True)
    os.mkfifo(broken / name)
    with pytest.raises(ModelFormatError, match=rf"{name} is no file, but a device, FIFO or socket"):
        look(broken)


def test_links_to_files_and_to_nothing_are_accepted(broken: Path) -> None:
    (broken / "config.json").rename(broken.parent / "config.json")
    (broken / "config.json").symlink_to(broken.parent / "config.json")
    (broken / "more").symlink_to(broken / "gone")
    assert open_model_directory(broken).context_length == 2048


@pytest.mark.parametrize(
    "text", ["{", "[]", "\x00", "[" * 200_000, '{"max_position_embeddings": ' + "1" * 5000 + "}"]
)
def test_damaged_json(broken: Path, text: str) -> None:
    (broken / "config.json").write_text(text)
    with pytest.raises(ModelFormatError, match=r"config\.json"):
        open_model_directory(broken)


@pytest.mark.parametrize("length", [None, 0, "many", True, 10**18])
def test_unknown_context_length(broken: Path, length: object) -> None:
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"max_position_embeddings": length}))
    with pytest.raises(ModelFormatError, match="max_position_embeddings"):
        open_model_directory(broken)


def test_several_end_tokens(broken: Path) -> None:
    (broken / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    assert open_model_directory(broken).end_token_ids == {0, 2}


def test_without_generation_config_the_model_config_decides(broken: Path) -> None:
    (broken / "generation_config.json").unlink()
    assert open_model_directory(broken).end_token_ids == {2}


def test_a_summary_names_a_model_as_opening_it_does(broken: Path, tmp_path: Path) -> None:
    nano = summarize_model("nano")
    assert nano.model_id == "nano"
    assert nano.weights_bytes == (broken / "openvino_model.bin").stat().st_size
    assert summarize_model(broken).model_id == open_model_directory(broken).model_id
    file = tiny_gguf(tmp_path, "llama")
    assert summarize_model(file).model_id == tiny_model(tmp_path, "llama").model_id
    assert summarize_model(file).weights_bytes == file.stat().st_size
    with pytest.raises(ModelNotFoundError):
        summarize_model("no-such-model")
    with pytest.raises(ModelFormatError, match="is a file"):
        summarize_model(broken / "config.json")
    (broken / "openvino_model.bin").unlink()
    with pytest.raises(ModelFormatError, match="is missing"):
        summarize_model(broken)


@pytest.mark.parametrize("file", ["", "model.gguf"])
@pytest.mark.parametrize(
    ("way", "look"),
    [
        ("stat", find_model),
        ("stat", summarize_model),
        ("stat", open_model_directory),
        ("open", summarize_model),
        ("open", open_model_directory),
    ],
)
def test_a_model_in_a_folder_without_permission(
    broken: Path, monkeypatch: pytest.MonkeyPatch, file: str, way: str, look: Callable[[str], Any]
) -> None:
    (broken / "model.gguf").touch()
    permitted = getattr(Path, way)

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.is_relative_to(broken):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return permitted(path, *arguments, **options)

    monkeypatch.setattr(Path, way, refuse)
    with pytest.raises(ModelFormatError, match=r"Permission denied.*permissions"):
        look(str(broken / file))


@pytest.mark.parametrize("look", [summarize_model, open_model_directory])
def test_a_model_whose_files_cannot_be_looked_at(
    broken: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Path], Any]
) -> None:
    stat = Path.stat

    def refuse(path: Path, **options: Any) -> os.stat_result:
        if path.parent == broken:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(ModelFormatError, match=r"openvino_model\.\w+ cannot be read \(Permission denied"):
        look(broken)


def test_a_name_too_long_for_a_path() -> None:
    with pytest.raises(ModelFormatError, match="cannot be read"):
        find_model("x" * 5000)


def test_a_home_folder_is_expanded(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(broken.parent))
    assert find_model("~/model") == broken
    assert open_model_directory("~/model").path == broken
    with pytest.raises(ModelNotFoundError):
        find_model("~no-such-user/model")
