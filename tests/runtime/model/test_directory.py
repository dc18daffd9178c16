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
from agentrt.runtime.model.directory import ModelDirectory, find_model, open_model_directory, summarize_model
from tests.runtime.tiny import tiny_gguf, tiny_model

BOTH = pytest.mark.parametrize("look", [summarize_model, open_model_directory])


@pytest.fixture
def broken(tmp_path: Path, nano_directory: ModelDirectory) -> Path:
    """A copy of the nano model that a test may damage."""
    return shutil.copytree(nano_directory.path, tmp_path / "model")


def test_an_embedded_model_opens_by_its_name_and_by_a_path(
    nano_directory: ModelDirectory, broken: Path
) -> None:
    assert (nano_directory.model_id, nano_directory.context_length) == ("nano", 2048)
    assert nano_directory.end_token_ids == {2}
    assert nano_directory.graph.is_file()
    assert open_model_directory("nano-draft").model_id == "nano-draft"
    assert open_model_directory(broken).model_id == "model"
    assert open_model_directory(str(broken)).end_token_ids == {2}


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("nanoo", r"'nano', 'nano-draft'.*GGUF"),
        ("/no/such/directory", r"nano.*GGUF"),
        *((model, r"names no model.*'nano'.*GGUF") for model in (None, 5, b"nano", "")),
    ],
)
def test_neither_a_name_nor_a_path(
    model: Any, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFoundError, match=error):
        open_model_directory(model)


@pytest.mark.parametrize("name", ["models", "model.gguf"])
@BOTH
def test_a_directory_of_gguf_files_is_refused_by_their_names(
    tmp_path: Path, name: str, look: Callable[[Path], object]
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "One.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFormatError, match=r"holds One\.gguf\. Name that file: .*One\.gguf$"):
        look(folder)
    (folder / "Two.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelFormatError, match=r"2 GGUF files: One\.gguf, Two\.gguf\. Name the one"):
        look(folder)


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(change(file.read_bytes()))


@pytest.mark.parametrize(
    ("file", "damage", "error"),
    [
        ("openvino_model.xml", Path.unlink, r"openvino_model\.xml.*optimum-cli"),
        ("openvino_model.bin", Path.unlink, r"openvino_model\.bin.*optimum-cli"),
        ("openvino_tokenizer.xml", Path.unlink, r"openvino_tokenizer\.xml.*convert_tokenizer"),
        ("openvino_detokenizer.bin", Path.unlink, r"openvino_detokenizer\.bin.*convert_tokenizer"),
        ("config.json", Path.unlink, r"config\.json.*Copy it"),
        *(
            (f"openvino_{graph}.bin", rewrite(cut), rf"openvino_{graph}\.bin is truncated")
            for graph in ("model", "tokenizer", "detokenizer")
            for cut in (lambda whole: whole[:-1], lambda whole: whole[: len(whole) // 2], lambda whole: b"")
        ),
        ("openvino_model.xml", rewrite(lambda text: text[:-2000]), r"openvino_model\.xml is truncated"),
        # Constants beyond the weights.
        *(
            ("openvino_model.xml", rewrite(change), "is truncated|lies at an impossible byte")
            for change in (
                lambda text: re.sub(rb'offset="(\d+)"\s+size="(\d+)"', rb'size="\2" offset="9\1"', text),
                lambda text: text.replace(b'offset="', b'offset="' + b"1" * 5000, 1),
                lambda text: text.replace(b'size="', b'size="' + b"9" * 18, 1),
            )
        ),
        *(
            ("config.json", rewrite(lambda _, text=text: text), r"config\.json")
            for text in (
                b"{",
                b"[]",
                b"\0",
                b"[" * 200_000,
                b'{"max_position_embeddings": ' + b"1" * 5000 + b"}",
            )
        ),
        *(
            (
                "config.json",
                rewrite(lambda _, length=length: json.dumps({"max_position_embeddings": length}).encode()),
                "max_position_embeddings",
            )
            for length in (None, 0, "many", True, 10**18)
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_file_is_named(
    broken: Path, file: str, damage: Callable[[Path], object], error: str
) -> None:
    damage(broken / file)
    with pytest.raises(ModelFormatError, match=f"(?s){error}"):
        open_model_directory(broken)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json", "more"])
@BOTH
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


def test_end_tokens_are_those_of_the_generation_config_else_of_the_config(broken: Path) -> None:
    (broken / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    assert open_model_directory(broken).end_token_ids == {0, 2}
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
    (broken / "openvino_model.bin").unlink()
    with pytest.raises(ModelFormatError, match="is missing"):
        summarize_model(broken)


@BOTH
def test_another_kind_of_file_is_refused(broken: Path, look: Callable[[Path], Any]) -> None:
    with pytest.raises(ModelFormatError, match=r"is a file, but .* a GGUF file or a directory.*optimum-cli"):
        look(broken / "openvino_model.xml")


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


@BOTH
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
