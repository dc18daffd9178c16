"""Pulls models by name, from the Hugging Face hub or an https address.

The hub's own settings apply: ``HF_ENDPOINT`` (a mirror), ``HF_TOKEN``, ``HF_HOME`` (where files are kept) and
``HF_HUB_OFFLINE``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.errors import ModelDownloadError
from agentrt.extras import require_extra

from .names import HubName, WebAddress, parse_name, quantisations
from .pulled import downloads_folder, models_folder, remember_pulled
from .web import Progress, download_file

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

_GRAPH = "openvino_model.xml"
_SHA256 = re.compile("[0-9a-fA-F]{64}")
_MODEL_FILES = (".xml", ".bin", ".json", ".jinja", ".txt", ".model")


def pull_model(
    name: str, *, sha256: str | None = None, revision: str | None = None, progress: Progress | None = None
) -> Path:
    """Download the model called ``name`` and return the path of its directory or GGUF file.

    ``name`` is ``OWNER/NAME`` (an OpenVINO model), ``OWNER/NAME:QUANTISATION`` (a GGUF file, with all its
    shards) or an https address, which needs the ``sha256`` of the file. ``revision`` is a branch, tag or
    commit of a repository. ``progress`` receives that of an address; the hub draws its own progress bars.
    From then on the name can be opened like a path.

    Raises:
        MissingExtraError: the extra ``hub`` is not installed.
        ModelDownloadError: it cannot be downloaded, or differs from its digest.
    """
    require_extra("hub")
    found = parse_name(name)
    if found is None:
        raise ModelDownloadError(
            f"{name!r} cannot be pulled. Give OWNER/NAME, OWNER/NAME:QUANTISATION or an https address. A "
            "model on this machine needs no pulling: name its path wherever a model is named."
        )
    if isinstance(found, WebAddress):
        path = _pull_from_address(found, sha256, revision, progress)
    elif sha256 is not None:
        raise ModelDownloadError(
            f"{name} needs no --sha256: its files are compared with the digests that the hub states. Leave "
            "it out."
        )
    else:
        path = _pull_from_hub(found, revision)
    try:
        remember_pulled(name, path)
    except OSError as error:
        raise ModelDownloadError(
            f"{name} lies in {path}, but its name could not be stored in {models_folder()} "
            f"({error.strerror or error}). Make that folder writable and pull it again, or open it by "
            "its path."
        ) from error
    return path


def _pull_from_address(
    address: WebAddress, sha256: str | None, revision: str | None, progress: Progress | None
) -> Path:
    if sha256 is None:
        raise ModelDownloadError(
            f"{address.url} needs its digest. Add --sha256 and what its publisher states."
        )
    if not _SHA256.fullmatch(sha256):
        raise ModelDownloadError(
            f"{sha256!r} is not a SHA-256 digest, which has 64 hexadecimal digits. Copy it again from where "
            "its publisher states it."
        )
    if revision is not None:
        raise ModelDownloadError(f"{address.url} is no repository and has no --revision. Leave it out.")
    return download_file(address.url, downloads_folder(), sha256, progress)


def _pull_from_hub(name: HubName, revision: str | None) -> Path:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from httpx2 import HTTPError
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        siblings = HfApi().model_info(name.repository, revision=revision, files_metadata=True).siblings or []
        paths = []
        for file in _wanted(name, siblings):
            path = Path(hf_hub_download(name.repository, file.rfilename, revision=revision))
            _verify(file, path)
            paths.append(path)
    except GatedRepoError as error:
        raise ModelDownloadError(
            f"{name.repository} is shared only with those who accepted its terms. Accept them on its page, "
            "and set HF_TOKEN to a token of yours."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelDownloadError(
            f"there is no repository {name.repository}, or it is private. Check the name, or set HF_TOKEN."
        ) from error
    except RevisionNotFoundError as error:
        raise ModelDownloadError(
            f"{name.repository} has no revision {revision!r}. Leave it out for the newest one."
        ) from error
    except (HTTPError, OSError, ValueError) as error:  # ValueError: the answer of a mirror is not the hub's
        raise ModelDownloadError(
            f"{name.repository} could not be downloaded ({type(error).__name__}: {_first_line(error)}). "
            f"{_what_to_check(error)}, and pull it again: it goes on where it broke off."
        ) from error
    return paths[0] if name.quantisation is not None else _folder_of(paths)


def _wanted(name: HubName, siblings: Sequence[RepoSibling]) -> list[RepoSibling]:
    """Return the files to download."""
    files = {each.rfilename: each for each in siblings}
    if name.quantisation is not None:
        shards = name.gguf_files(list(files))
        if shards:
            return [files[each] for each in shards]
    elif _GRAPH in files:
        return [each for path, each in files.items() if "/" not in path and path.endswith(_MODEL_FILES)]
    known = quantisations(list(files))
    if known:
        raise ModelDownloadError(
            f"{name.repository} has GGUF files of these quantisations: {', '.join(known)}. Name one: "
            f"agentrt pull {name.repository}:{known[0]}"
        )
    raise ModelDownloadError(
        f"{name.repository} has neither {_GRAPH} nor GGUF files. Look for a repository that does: those of "
        "OpenVINO, and those whose names end in -GGUF."
    )


def _verify(file: Any, path: Path) -> None:
    """Compare a file with the digest that the hub states for large files."""
    stated = None if file.lfs is None else file.lfs.sha256
    if stated is None:
        return
    with path.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() == stated:
            return
    path.resolve().unlink()
    path.unlink(missing_ok=True)
    raise ModelDownloadError(f"{file.rfilename} was damaged on its way and deleted. Pull it again.")


def _folder_of(paths: Sequence[Path]) -> Path:
    return next(path.parent for path in paths if path.name == _GRAPH)


def _what_to_check(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:  # of the disk; those of the network have none
        return "Free space in the hub's cache folder (HF_HOME), or make it writable"
    return "Check the network, HF_ENDPOINT and HF_HUB_OFFLINE"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
