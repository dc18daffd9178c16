"""Graphs of tokenizers that are damaged: refused before OpenVINO reads outside their texts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agentrt.errors import ModelFormatError
from agentrt.runtime.files.checksums import CHECKSUMS
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.model.tokenizer_graph import check_texts

GRAPHS = ("openvino_tokenizer", "openvino_detokenizer")


@pytest.fixture
def folder(tmp_path: Path, nano_directory: ModelDirectory) -> Path:
    """A copy of the nano model without digests, as most models are."""
    return shutil.copytree(nano_directory.path, tmp_path / "model", ignore=shutil.ignore_patterns(CHECKSUMS))


def change(file: Path, how: Callable[[bytes], bytes]) -> None:
    file.write_bytes(how(file.read_bytes()))


@pytest.mark.parametrize("graph", GRAPHS)
def test_random_bytes_are_refused(folder: Path, graph: str) -> None:
    change(folder / f"{graph}.bin", lambda content: np.random.default_rng(0).bytes(len(content)))
    with pytest.raises(ModelFormatError, match=rf"{graph}\.xml is damaged \(a text lies outside its bytes\)"):
        Tokenizer(open_model_directory(folder), 2048)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("value", [-1, -(2**31), 2**31 - 1, 7261])
def test_one_wrong_extent_is_refused(folder: Path, graph: str, value: int) -> None:
    """The last begin or the last end of the vocabulary: the texts are the first constants of i32 and u8."""
    text = (folder / f"{graph}.xml").read_text()
    extents = [
        (int(match[1]), int(match[2]))
        for match in re.finditer(r'element_type="i32" shape="2048" offset="(\d+)" size="(\d+)"', text)
    ]
    for offset, size in extents[:2]:
        weights = folder / f"{graph}.bin"
        whole = weights.read_bytes()
        last = offset + size - 4
        weights.write_bytes(whole[:last] + np.int32(value).tobytes() + whole[last + 4 :])
        with pytest.raises(ModelFormatError, match="a text lies outside its bytes"):
            check_texts(folder / f"{graph}.xml")
        weights.write_bytes(whole)
    check_texts(folder / f"{graph}.xml")


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"<net><layers></net>",
        lambda text: b"<net><layers/><edges/></net>",
        lambda text: text.replace(b"from-layer", b"from_layer"),
        lambda text: text.replace(b"<data", b"<dota"),
    ],
)
def test_a_graph_that_cannot_be_read_is_refused(
    folder: Path, graph: str, damage: Callable[[bytes], bytes]
) -> None:
    change(folder / f"{graph}.xml", damage)
    with pytest.raises(ModelFormatError, match="Convert"):
        Tokenizer(open_model_directory(folder), 2048)
