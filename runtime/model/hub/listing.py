"""What a hub says of a repository: its files, validated."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import BaseModel, StringConstraints, ValidationError

from agentrt.errors import ModelDownloadError

from .names import HubName, quantisations
from .path_names import path_problem

GRAPH: Final = "openvino_model.xml"
_MODEL_FILES: Final = (".xml", ".bin", ".json", ".jinja", ".txt", ".model")
_MAX_BYTES: Final = 64 << 20
"""Of one listing: that of 100,000 files has some 30 MB."""


class _LargeFile(BaseModel):
    sha256: Annotated[str, StringConstraints(pattern=re.compile(r"^[0-9a-fA-F]{64}\Z"), to_lower=True)]


class ListedFile(BaseModel):
    """A file of a repository."""

    rfilename: str
    """Its path in the repository."""
    lfs: _LargeFile | None = None
    """Its digest, which hubs state for large files."""


class _Listing(BaseModel):
    siblings: list[ListedFile] | None = None


def read_listing(answer: Iterable[bytes], address: str) -> list[ListedFile]:
    """Return the files in a hub's ``answer`` about a repository.

    Raises:
        ModelDownloadError: it is larger than any listing, or no listing. The message names ``address``.
    """
    body = bytearray()
    for piece in answer:
        body += piece
        if len(body) > _MAX_BYTES:
            raise ModelDownloadError(
                f"{address} sends more than a list of files has ({_MAX_BYTES >> 20} MiB). Check HF_ENDPOINT."
            )
    try:
        return _Listing.model_validate_json(bytes(body)).siblings or []
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ModelDownloadError(
            f"{address} answered with something else than the files of a repository "
            f"({field}{': ' if field else ''}{first['msg']}). Check HF_ENDPOINT, and whether the network "
            "asks for a login."
        ) from error


def wanted_files(name: HubName, listed: Iterable[ListedFile], address: str) -> list[ListedFile]:
    """Return the files to download, in the order of the shards of a split model.

    Raises:
        ModelDownloadError: there is no such model, or more than one; one of its shards is not listed; or the
            name of a file would leave its folder.
    """
    files = {each.rfilename: each for each in listed}
    if name.quantisation is not None:
        wanted = _gguf_files(name, list(files))
    elif GRAPH in files:
        wanted = [path for path in files if "/" not in path and path.endswith(_MODEL_FILES)]
    else:
        wanted = []
    if not wanted:
        raise _nothing_to_pull(name, list(files))
    for path in wanted:
        problem = path_problem(path, folders=True)
        if problem is not None:
            raise ModelDownloadError(
                f"{address} lists the file {path!r}, which cannot be stored: {problem}. Pull another "
                "repository, or check HF_ENDPOINT."
            )
    return [files[path] for path in wanted]


def _gguf_files(name: HubName, files: list[str]) -> list[str]:
    """Return the GGUF file of a quantisation, or all its shards; none if there is none."""
    models = name.gguf_models(files)
    if not models:
        return []
    if len(models) > 1:
        stems = sorted(stem for stem, _ in models)
        raise ModelDownloadError(
            f"{name.repository} has several models of this quantisation: {', '.join(map(repr, stems))}. Name "
            f"more of one, such as {name.repository}:{stems[0].rsplit('/', 1)[-1]}, or pull its file by its "
            "address."
        )
    (((stem, count), shards),) = models.items()
    wrong = sorted(set(shards) ^ set(range(1, count + 1)))
    if wrong:
        raise ModelDownloadError(
            f"{name.repository} lists not exactly the {count} files of {stem!r}: number {wrong[0]} is "
            f"{'one too many' if wrong[0] in shards else 'missing'}. Pull another quantisation or "
            "repository, or check HF_ENDPOINT."
        )
    return [shards[number] for number in sorted(shards)]


def _nothing_to_pull(name: HubName, files: list[str]) -> ModelDownloadError:
    known = quantisations(files)
    if known:
        return ModelDownloadError(
            f"{name.repository} has GGUF files of these quantisations: {', '.join(known)}. Name one: "
            f"agentrt pull {name.repository}:{known[0]}"
        )
    return ModelDownloadError(
        f"{name.repository} has neither {GRAPH} nor GGUF files. Look for a repository that does: those of "
        "OpenVINO, and those whose names end in -GGUF."
    )
