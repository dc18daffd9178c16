"""Models in GGUF files, of which llama.cpp splits the large ones into several."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentrt.errors import ModelFormatError

from .file_format import Header, Tensor, read_header

_SPLIT: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})")
_MAX_PARTS: Final = 99_999


@dataclass(frozen=True, slots=True)
class Source:
    """A model in one or several GGUF files."""

    name: str
    headers: tuple[Header, ...]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the first file, which describe the model."""
        return self.headers[0].metadata

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of all files by name.

        Raises:
            ModelFormatError: two files have a tensor of one name.
        """
        found: dict[str, Tensor] = {}
        for header in self.headers:
            for tensor in header.tensors:
                if tensor.name in found:
                    raise ModelFormatError(
                        f"two of its files have a tensor {tensor.name!r}. Download all of them again."
                    )
                found[tensor.name] = tensor
        return found


def read_source(file: Path) -> Source:
    """Return the model of which ``file`` is the only file, or any of several.

    Raises:
        ModelFormatError: a file is damaged, or one of several is missing.
    """
    header = read_header(file)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return Source(file.stem, (header,))
    named = _SPLIT.fullmatch(file.stem)
    if named is None or count > _MAX_PARTS or int(named["count"]) != count:
        raise ModelFormatError(
            f"{file} is one of {count} files of a model, but is not named like one. Give it the name it was "
            f"published with: NAME-00001-of-{count:05}.gguf."
        )
    parts = [
        file.with_name(f"{named['stem']}-{number:05}-of-{count:05}{file.suffix}")
        for number in range(1, count + 1)
    ]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelFormatError(
            f"{file} is one of {count} files of a model; missing in {file.parent}: {', '.join(missing[:3])}"
            f"{', …' if len(missing) > 3 else ''}. Download all of them to one folder."
        )
    return Source(named["stem"], tuple(header if part == file else read_header(part) for part in parts))
