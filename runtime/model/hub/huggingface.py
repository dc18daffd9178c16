"""Downloads from the Hugging Face hub or a mirror, into the hub's own cache folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import httpx2
from huggingface_hub import constants, get_session, get_token, hf_hub_download
from pydantic import BaseModel, StringConstraints, ValidationError

from agentrt.errors import ModelDownloadError

from .client import HubGuard
from .names import HubName, path_problem, quantisations
from .web import Say

_GRAPH: Final = "openvino_model.xml"
_MODEL_FILES: Final = (".xml", ".bin", ".json", ".jinja", ".txt", ".model")


class _LargeFile(BaseModel):
    sha256: Annotated[str, StringConstraints(pattern=re.compile(r"^[0-9a-fA-F]{64}\Z"), to_lower=True)]


class _ListedFile(BaseModel):
    """A file of a repository, by its path; hubs state the digests of large files."""

    rfilename: str
    lfs: _LargeFile | None = None


class _Listing(BaseModel):
    siblings: list[_ListedFile] | None = None


def pull_from_hub(name: HubName, revision: str | None, say: Say) -> Path:
    """Download a model of the hub; return its directory or its first GGUF file.

    Raises:
        ModelDownloadError: it cannot be downloaded, or differs from its digest; the message says why.
    """
    problem = None if revision is None else path_problem(revision, folders=True)
    if problem is not None:
        raise ModelDownloadError(
            f"{revision!r} is no revision: {problem}. Give --revision a branch, tag or commit."
        )
    HubGuard(name.repository, revision, say).install()
    try:
        paths = []
        for file in _wanted_files(name, revision, say):
            path = Path(hf_hub_download(name.repository, file.rfilename, revision=revision))
            _verify(file, path)
            paths.append(path)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, RuntimeError, ValueError) as error:
        # ValueError and RuntimeError are the library's own, of answers that no hub gives.
        check = "Check the network, HF_ENDPOINT and HF_HUB_OFFLINE"
        if isinstance(error, OSError) and error.errno is not None:  # of the disk; the network's have none
            check = "Free space in the hub's cache folder (HF_HOME), or make it writable"
        raise ModelDownloadError(
            f"{name.repository} could not be downloaded from {constants.ENDPOINT} ({type(error).__name__}: "
            f"{(str(error).strip().splitlines() or [''])[0]}). {check}, and pull it again: files that are "
            "complete are kept."
        ) from error
    if len({path.parent for path in paths}) > 1:
        raise ModelDownloadError(f"{name.repository} was changed meanwhile. Pull it again.")
    return paths[0] if name.quantisation is not None else paths[0].parent


def _verify(file: _ListedFile, path: Path) -> None:
    """Compare a file with the digest that the hub states for large files."""
    if file.lfs is None:
        return
    with path.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() == file.lfs.sha256:
            return
    path.resolve().unlink()
    path.unlink(missing_ok=True)
    raise ModelDownloadError(f"{file.rfilename} was damaged on its way and deleted. Pull it again.")


def _wanted_files(name: HubName, revision: str | None, say: Say) -> list[_ListedFile]:
    """Return the files to download, in the order of the shards of a split model.

    Raises:
        ModelDownloadError: there is no such model, or more than one; one of its shards is not listed; or the
            name of a file would leave its folder.
    """
    address = f"{constants.ENDPOINT}/api/models/{name.repository}"
    if revision is not None:
        address += f"/revision/{quote(revision, safe='')}"
    say(f"asking {constants.ENDPOINT} for the files of {name.repository}")
    files = {each.rfilename: each for each in _list_files(address)}
    if name.quantisation is not None:
        wanted = _gguf_files(name, files)
    elif _GRAPH in files:
        wanted = [path for path in files if "/" not in path and path.endswith(_MODEL_FILES)]
    else:
        wanted = []
    if not wanted:
        raise _nothing_to_pull(name, files)
    for path in wanted:
        problem = path_problem(path, folders=True)
        if problem is not None:
            raise ModelDownloadError(
                f"{address} lists the file {path!r}, which cannot be stored: {problem}. Pull another "
                "repository, or check HF_ENDPOINT."
            )
    return [files[path] for path in wanted]


def _list_files(address: str) -> list[_ListedFile]:
    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    answer = get_session().get(address, params={"blobs": "true"}, headers=headers)
    try:
        return _Listing.model_validate_json(answer.content).siblings or []
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ModelDownloadError(
            f"{address} answered with something else than the files of a repository "
            f"({field}{': ' if field else ''}{first['msg']}). Check HF_ENDPOINT, and whether the network "
            "asks for a login."
        ) from error


def _gguf_files(name: HubName, files: Iterable[str]) -> list[str]:
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


def _nothing_to_pull(name: HubName, files: Iterable[str]) -> ModelDownloadError:
    known = quantisations(files)
    if known:
        return ModelDownloadError(
            f"{name.repository} has GGUF files of these quantisations: {', '.join(known)}. Name one: "
            f"agentrt pull {name.repository}:{known[0]}"
        )
    return ModelDownloadError(
        f"{name.repository} has neither {_GRAPH} nor GGUF files. Look for a repository that does: those of "
        "OpenVINO, and those whose names end in -GGUF."
    )
