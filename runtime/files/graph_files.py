"""The files of an OpenVINO graph: whether they are there, and complete.

Reading a graph whose weights file is too short is undefined behaviour in OpenVINO, not an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from agentrt.errors import ModelFormatError

EXPORT_HINT: Final = (
    "Export the model again: optimum-cli export openvino --model NAME --task text-generation-with-past "
    "--weight-format int8 DIRECTORY"
)

_DATA: Final = re.compile(rb"<data\b[^>]*>")
_OFFSET: Final = re.compile(rb'\boffset="(\d+)"')
_SIZE: Final = re.compile(rb'\bsize="(\d+)"')
_MAX_DIGITS: Final = 19


def check_graph(xml: Path) -> None:
    """Check that the files of a graph are complete: the weights file is as long as the constants require.

    Raises:
        ModelFormatError: a file is missing or truncated.
    """
    weights = xml.with_suffix(".bin")
    for file in (xml, weights):
        if not file.is_file():
            raise ModelFormatError(f"{file} is missing. {_hint(file)}")
    needed = constants_end(xml)
    size = weights.stat().st_size
    if size < needed:
        raise ModelFormatError(
            f"{weights} is truncated: it has {size} bytes, but the graph's constants reach to byte {needed}. "
            "Copy the file again, or export the model again."
        )


def constants_end(xml: Path) -> int:
    """Return the byte of the weights file behind the last constant of the graph in ``xml``.

    Raises:
        ModelFormatError: ``xml`` is truncated or no graph.
    """
    text = xml.read_bytes()
    if not text.rstrip().endswith(b"</net>"):
        raise ModelFormatError(f"{xml} is truncated or not an OpenVINO graph. Copy it again. {EXPORT_HINT}")
    end = 0
    for element in _DATA.finditer(text):
        offset, size = _OFFSET.search(element[0]), _SIZE.search(element[0])
        if offset is None or size is None:
            continue
        if max(len(offset[1]), len(size[1])) > _MAX_DIGITS:
            raise ModelFormatError(
                f"{xml} is damaged: a constant lies at an impossible byte. Copy it again. {EXPORT_HINT}"
            )
        end = max(end, int(offset[1]) + int(size[1]))
    return end


def _hint(file: Path) -> str:
    if "tokenizer" in file.name:
        return f"Convert the tokenizer: convert_tokenizer NAME --with-detokenizer -o {file.parent}"
    return EXPORT_HINT
