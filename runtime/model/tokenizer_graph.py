"""Reads from the graphs of a tokenizer what OpenVINO GenAI's interface does not tell, and checks it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agentrt.errors import ModelFormatError

_TEXTS: Final = ("i32", "i32", "u8")
"""Element types of packed texts: where each begins, where it ends, and the bytes of all."""


@dataclass(frozen=True, slots=True)
class _Constant:
    """A constant of a graph."""

    element_type: str
    dimensions: int
    content: bytes

    def integers(self) -> NDArray[np.int32]:
        return np.frombuffer(self.content[: len(self.content) // 4 * 4], np.int32)


def special_token_pattern(tokenizer_graph: Path) -> re.Pattern[str]:
    """Read the expression by which a tokenizer finds special tokens in text.

    Raises:
        ModelFormatError: Python cannot compile the expression, or the graph is damaged.
    """
    alternatives = [inputs[-1] for inputs in _constant_inputs(tokenizer_graph, "SpecialTokensSplit")]
    try:
        expressions = [each.content.decode("utf-8") for each in alternatives if each is not None]
        return re.compile("|".join(expressions) or r"(?!)")
    except (re.error, UnicodeDecodeError) as error:
        raise ModelFormatError(
            f"{tokenizer_graph} splits special tokens by an expression that Python cannot compile ({error}). "
            "Convert the tokenizer again with a current openvino-tokenizers."
        ) from error


def decoded_vocabulary(detokenizer_graph: Path) -> list[bytes] | None:
    """Read what a detokenizer writes for each token, before it changes the text as a whole.

    Two tokens may stand for the same bytes. Returns None where the graph keeps its vocabulary otherwise.
    :func:`check_texts` must have passed.
    """
    for inputs in _constant_inputs(detokenizer_graph, "VocabDecoder"):
        begins, ends, text = inputs[1:4]
        if begins is None or ends is None or text is None:
            return None
        extents = zip(begins.integers().tolist(), ends.integers().tolist(), strict=True)
        return [text.content[begin:end] for begin, end in extents]
    return None


def check_texts(graph: Path) -> None:
    """Check that all texts among the constants of a graph lie within their bytes.

    OpenVINO's operations on texts do not check that: they would read other memory of the process.

    Raises:
        ModelFormatError: one does not, or the graph cannot be read.
    """
    for inputs in _constant_inputs(graph):
        for index in range(len(inputs) - 2):
            packed = [each for each in inputs[index : index + 3] if each is not None]
            if tuple(each.element_type for each in packed) == _TEXTS and not _lie_within(*packed):
                raise _damaged(graph, "a text lies outside its bytes")


def _lie_within(begins: _Constant, ends: _Constant, text: _Constant) -> bool:
    if not begins.dimensions or not ends.dimensions:
        return True  # two numbers, and a text of their operation
    first, last = begins.integers(), ends.integers()
    if len(first) != len(last):
        return False
    return bool(np.all((first >= 0) & (first <= last) & (last <= len(text.content))))


def _constant_inputs(graph: Path, type: str | None = None) -> Iterator[list[_Constant | None]]:
    """Yield the inputs of each operation, or of those of ``type``: constants, None for others."""
    try:
        root = ElementTree.parse(graph).getroot()
        layers = {layer.get("id"): layer for layer in root.iter("layer")}
        sources = {
            (edge.get("to-layer"), edge.get("to-port")): edge.get("from-layer") for edge in root.iter("edge")
        }
        weights = graph.with_suffix(".bin").read_bytes()
        for layer in root.iter("layer"):
            if type in (None, layer.get("type")):
                ports = layer.findall("input/port")
                yield [_constant(layers[sources[layer.get("id"), port.get("id")]], weights) for port in ports]
    except (ElementTree.ParseError, LookupError, ValueError, AttributeError) as error:
        raise _damaged(graph, f"{error.__class__.__name__}: {error}") from error


def _constant(layer: ElementTree.Element, weights: bytes) -> _Constant | None:
    data = layer.find("data") if layer.get("type") == "Const" else None
    if data is None:
        return None
    begin, size = int(data.get("offset", "0")), int(data.get("size", "0"))
    dimensions = len([extent for extent in data.get("shape", "").split(",") if extent.strip()])
    return _Constant(data.get("element_type", ""), dimensions, weights[begin : begin + size])


def _damaged(graph: Path, reason: str) -> ModelFormatError:
    return ModelFormatError(
        f"{graph} is damaged ({reason}). Convert the tokenizer again: convert_tokenizer NAME "
        f"--with-detokenizer -o {graph.parent}"
    )
