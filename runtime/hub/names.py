"""The names by which models are pulled: a hub repository, a quantisation in one, or an https address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_PART = r"[A-Za-z0-9_](?:[\w.-]*[A-Za-z0-9_])?"
# The hub allows neither "--" nor "..", and a dot or hyphen only inside.
_REPOSITORY = re.compile(
    rf"(?!.*(?:--|\.\.))(?P<repository>{_PART}/{_PART})(?::(?P<quantisation>[\w.-]+))?", re.ASCII
)
_PATH_SUFFIXES = (".git", ".gguf", ".xml", ".bin")
_SHARD = r"(?:-\d{5}-of-\d{5})?"


@dataclass(frozen=True, slots=True)
class HubName:
    """``OWNER/NAME``, a repository with an OpenVINO model, or ``OWNER/NAME:QUANTISATION``, a GGUF file."""

    repository: str
    quantisation: str | None = None

    def gguf_files(self, files: Sequence[str]) -> list[str]:
        """Return the GGUF file of this quantisation among ``files``, or all its shards, in order."""
        assert self.quantisation is not None
        pattern = re.compile(rf"(?:.*[-_.])?{re.escape(self.quantisation)}{_SHARD}\.gguf", re.IGNORECASE)
        return sorted(file for file in files if pattern.fullmatch(file.rsplit("/", 1)[-1]))


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The https address of a GGUF file."""

    url: str


def parse_name(name: str) -> HubName | WebAddress | None:
    """Return what ``name`` says to pull; None if it is no such name.

    ``folder/model.gguf`` is the path of a file: a repository of GGUF files is pulled with a quantisation.
    """
    if name.startswith(("https://", "http://")):
        return WebAddress(name)
    match = _REPOSITORY.fullmatch(name)
    if match is None or name.lower().endswith(_PATH_SUFFIXES):
        return None
    return HubName(match["repository"], match["quantisation"])


def quantisations(files: Sequence[str]) -> list[str]:
    """Return the quantisations of the GGUF files among ``files``, such as ``q4_k_m``."""
    pattern = re.compile(rf".*?[-_.]((?:i?q\d\w*|tq\d\w*|mxfp4\w*|b?f16|f32)){_SHARD}\.gguf", re.IGNORECASE)
    found = (pattern.fullmatch(file.rsplit("/", 1)[-1]) for file in files)
    return sorted({match[1].lower() for match in found if match})
