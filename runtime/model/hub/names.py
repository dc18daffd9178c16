"""The names by which models are pulled: a hub repository, a quantisation in one, or an https address.

Also names that others choose and that become parts of paths: of files, digests, commits and revisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_PART = r"[A-Za-z0-9_](?:[\w.-]*[A-Za-z0-9_])?"
# The hub allows 96 characters, neither "--" nor "..", and a dot or hyphen only inside.
_REPOSITORY = re.compile(
    rf"(?!.*(?:--|\.\.))(?=[^:]{{1,96}}(?::|$))"
    rf"(?P<repository>{_PART}/{_PART})(?::(?P<quantisation>[\w.-]+))?",
    re.ASCII,
)
_PATH_SUFFIXES = (".git", ".gguf", ".xml", ".bin")
_SHARD = r"(?:-(?P<number>\d{5})-of-(?P<count>\d{5}))?"
_PROJECTOR = "mmproj"
"""Begins the names of files that make image embeddings, beside a model."""

_MAX_BYTES: Final = 200
"""File systems take 255; locks and partial files have a suffix."""
_FORBIDDEN: Final = frozenset('\\/:*?"<>|')
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HubName:
    """``OWNER/NAME``, a repository with an OpenVINO model, or ``OWNER/NAME:QUANTISATION``, a GGUF file."""

    repository: str
    quantisation: str | None = None

    def gguf_models(self, files: Iterable[str]) -> dict[tuple[str, int], dict[int, str]]:
        """Return the models of this quantisation among ``files``: the files of each by their numbers.

        The key is the path without number and suffix, and how many files the model has.
        """
        assert self.quantisation is not None
        pattern = re.compile(
            rf"(?P<stem>(?:.*/)?(?!{_PROJECTOR})(?:[^/]*[-_.])?{re.escape(self.quantisation)}){_SHARD}\.gguf",
            re.IGNORECASE | re.ASCII | re.DOTALL,
        )
        models: dict[tuple[str, int], dict[int, str]] = {}
        for match in filter(None, map(pattern.fullmatch, files)):
            shards = models.setdefault((match["stem"], int(match["count"] or 1)), {})
            shards[int(match["number"] or 1)] = match.string
        return models


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


def quantisations(files: Iterable[str]) -> list[str]:
    """Return the quantisations of the GGUF files among ``files``, such as ``q4_k_m``."""
    pattern = re.compile(rf".*?[-_.]((?:i?q\d\w*|tq\d\w*|mxfp4\w*|b?f16|f32)){_SHARD}\.gguf", re.IGNORECASE)
    found = (pattern.fullmatch(file.rsplit("/", 1)[-1]) for file in files)
    return sorted({match[1].lower() for match in found if match})


def path_problem(name: str, *, folders: bool = False) -> str | None:
    """Return why ``name`` cannot name a file inside a folder on any system; None if it can.

    With ``folders`` it is a relative path with slashes, each part of which is such a name.
    """
    parts = name.split("/") if folders else [name]
    return next((problem for part in parts if (problem := _part_problem(part)) is not None), None)


def _part_problem(part: str) -> str | None:
    if not part:
        return "a part of it is empty"
    if part in (".", ".."):
        return f"{part!r} is a folder"
    if not part.isprintable() or not _FORBIDDEN.isdisjoint(part):
        return "it has a character that file names cannot have"
    if part[-1] in ". " or _DEVICE.fullmatch(part):
        return "it is no file on Windows"
    return "it is too long" if len(part.encode()) > _MAX_BYTES else None
