"""SHA-256 digests of a model's graphs, in the file ``SHA256SUMS`` next to them.

Models that this project converts or trains have one. Its format is that of ``sha256sum``, so that any model
directory can get one: ``sha256sum openvino_* > SHA256SUMS``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agentrt.errors import ModelFormatError

CHECKSUMS: Final = "SHA256SUMS"
_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *]([^/\\\0]+)")


def write_checksums(folder: Path) -> Path:
    """Write the digests of the graphs in ``folder``, and of their weights; return the written file."""
    sums = folder / CHECKSUMS
    lines = [f"{_digest(file)}  {file.name}\n" for file in sorted(folder.glob("openvino_*"))]
    sums.write_text("".join(lines), encoding="utf-8", newline="\n")
    return sums


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the stated digest of each file by its name; none without a ``SHA256SUMS``.

    Lines that state no SHA-256 digest of a file of ``folder`` are left out.
    """
    try:
        text = (folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {}
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return {match[2]: match[1] for match in found if match is not None}


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Compare the files called ``names`` with their digests. Files without a digest are not read.

    Raises:
        ModelFormatError: one differs from its digest, or is missing.
        OSError: one cannot be read.
    """
    stated = read_checksums(folder)
    for name in names:
        file = folder / name
        if name in stated and (not file.is_file() or _digest(file) != stated[name]):
            raise damaged_error(file)


def damaged_error(file: Path) -> ModelFormatError:
    """Return the error for a file that differs from its digest."""
    return ModelFormatError(
        f"{file} is damaged: it differs from its digest in {CHECKSUMS}. Copy or download the model again; if "
        "it is one of agentrt's own, install agentrt again."
    )


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
