"""Downloads from the Hugging Face hub or a mirror, into the hub's own cache folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import quote

import httpx2
from huggingface_hub import constants, get_session, get_token, hf_hub_download

from agentrt.errors import ModelDownloadError

from .client import HubGuard
from .listing import GRAPH, ListedFile, read_listing, wanted_files
from .names import HubName
from .path_names import path_problem
from .web import Say


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
        address, listed = _list_files(name.repository, revision, say)
        paths = []
        for file in wanted_files(name, listed, address):
            path = Path(hf_hub_download(name.repository, file.rfilename, revision=revision))
            _verify(file, path)
            paths.append(path)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, RuntimeError, ValueError) as error:
        # ValueError and RuntimeError are the library's own, of answers that no hub gives.
        raise ModelDownloadError(
            f"{name.repository} could not be downloaded from {constants.ENDPOINT} "
            f"({type(error).__name__}: {_first_line(error)}). {_what_to_check(error)}, and pull it again: "
            "files that are complete are kept."
        ) from error
    if len({path.parent for path in paths}) > 1:
        raise ModelDownloadError(f"{name.repository} was changed meanwhile. Pull it again.")
    return paths[0] if name.quantisation is not None else _folder_of(paths)


def _list_files(repository: str, revision: str | None, say: Say) -> tuple[str, list[ListedFile]]:
    """Return the address that was asked for the files of a repository, and the files."""
    address = f"{constants.ENDPOINT}/api/models/{repository}"
    if revision is not None:
        address += f"/revision/{quote(revision, safe='')}"
    say(f"asking {constants.ENDPOINT} for the files of {repository}")
    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    with get_session().stream("GET", address, params={"blobs": "true"}, headers=headers) as answer:
        return address, read_listing(answer.iter_bytes(), address)


def _verify(file: ListedFile, path: Path) -> None:
    """Compare a file with the digest that the hub states for large files."""
    if file.lfs is None:
        return
    with path.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() == file.lfs.sha256:
            return
    path.resolve().unlink()
    path.unlink(missing_ok=True)
    raise ModelDownloadError(f"{file.rfilename} was damaged on its way and deleted. Pull it again.")


def _folder_of(paths: list[Path]) -> Path:
    return next(path.parent for path in paths if path.name == GRAPH)


def _what_to_check(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:  # of the disk; those of the network have none
        return "Free space in the hub's cache folder (HF_HOME), or make it writable"
    return "Check the network, HF_ENDPOINT and HF_HUB_OFFLINE"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
