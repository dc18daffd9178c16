"""Reads from the graphs of a tokenizer what OpenVINO GenAI's interface to them does not tell."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agentrt.errors import ModelFormatError


def special_token_pattern(tokenizer_graph: Path) -> re.Pattern[str]:
    """Read the expression by which a tokenizer finds special tokens in text.

    Raises:
        ModelFormatError: Python cannot compile the expression.
    """
    alternatives = [inputs[-1] for inputs in _constant_inputs(tokenizer_graph, "SpecialTokensSplit")]
    expressions = [alternative.decode("utf-8") for alternative in alternatives if alternative is not None]
    try:
        return re.compile("|".join(expressions) or r"(?!)")
    except re.error as error:
        raise ModelFormatError(
            f"{tokenizer_graph} splits special tokens by an expression that Python cannot compile ({error}). "
            "Convert the tokenizer again with a current openvino-tokenizers."
        ) from error


def decoded_vocabulary(detokenizer_graph: Path) -> list[bytes] | None:
    """Read what a detokenizer writes for each token, before it changes the text as a whole.

    Two tokens may stand for the same bytes. Returns None where the graph keeps its vocabulary otherwise.
    """
    for inputs in _constant_inputs(detokenizer_graph, "VocabDecoder"):
        begins, ends, text = inputs[1:4]
        if begins is None or ends is None or text is None:
            return None
        extents = zip(
            np.frombuffer(begins, np.int32).tolist(), np.frombuffer(ends, np.int32).tolist(), strict=True
        )
        return [text[begin:end] for begin, end in extents]
    return None


def _constant_inputs(graph: Path, type: str) -> Iterator[list[bytes | None]]:
    """Yield the inputs of each operation of ``type``: the bytes of constants, None for others."""
    root = ElementTree.parse(graph).getroot()
    layers = {layer.get("id"): layer for layer in root.iter("layer")}
    sources = {
        (edge.get("to-layer"), edge.get("to-port")): edge.get("from-layer") for edge in root.iter("edge")
    }
    with graph.with_suffix(".bin").open("rb") as weights:
        for layer in root.iter("layer"):
            if layer.get("type") != type:
                continue
            found: list[bytes | None] = []
            for port in layer.findall("input/port"):
                source = layers[sources[layer.get("id"), port.get("id")]]
                constant = source.find("data") if source.get("type") == "Const" else None
                if constant is None:
                    found.append(None)
                    continue
                weights.seek(int(constant.get("offset", "0")))
                found.append(weights.read(int(constant.get("size", "0"))))
            yield found
