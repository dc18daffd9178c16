"""Pulls models by name, from the Hugging Face hub or an https address.

The hub's own settings apply: ``HF_ENDPOINT`` (a mirror), ``HF_TOKEN``, ``HF_HOME`` (where files are kept) and
``HF_HUB_OFFLINE``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentrt.errors import ModelDownloadError
from agentrt.extras import require_extra

from .names import WebAddress, parse_name
from .pulled import downloads_folder, models_folder, remember_pulled
from .web import Progress, Say, download_file

_SHA256 = re.compile("[0-9a-fA-F]{64}")


def pull_model(
    name: str,
    *,
    sha256: str | None = None,
    revision: str | None = None,
    progress: Progress | None = None,
    say: Say = lambda line: None,
) -> Path:
    """Download the model called ``name`` and return the path of its directory or GGUF file.

    ``name`` is ``OWNER/NAME`` (an OpenVINO model), ``OWNER/NAME:QUANTISATION`` (a GGUF file, with all its
    shards) or an https address, which needs the ``sha256`` of the file. ``revision`` is a branch, tag or
    commit of a repository. ``progress`` receives that of an address; the hub draws its own progress bars.
    ``say`` receives lines about which server is asked, and that it did not answer. From then on the name can
    be opened like a path.

    The requests of ``huggingface_hub`` in this process have bounded waits and checked answers afterwards.

    Raises:
        MissingExtraError: the extra ``hub`` is not installed.
        ModelDownloadError: it cannot be downloaded, or differs from its digest.
    """
    require_extra("hub")
    found = parse_name(name)
    if found is None:
        raise ModelDownloadError(
            f"{name!r} cannot be pulled. Give OWNER/NAME, OWNER/NAME:QUANTISATION or an https address: "
            "agentrt models --recommended lists some. A model on this machine needs no pulling: name its "
            "path wherever a model is named."
        )
    if isinstance(found, WebAddress):
        if sha256 is None:
            raise ModelDownloadError(f"{name} needs its digest. Add --sha256 and what its publisher states.")
        if not _SHA256.fullmatch(sha256):
            raise ModelDownloadError(
                f"{sha256!r} is not a SHA-256 digest, which has 64 hexadecimal digits. Copy it again from "
                "where its publisher states it."
            )
        if revision is not None:
            raise ModelDownloadError(f"{name} is no repository and has no --revision. Leave it out.")
        path = download_file(found.url, downloads_folder(), sha256, progress, say)
    elif sha256 is not None:
        raise ModelDownloadError(
            f"{name} needs no --sha256: its files are compared with the digests that the hub states. Leave "
            "it out."
        )
    else:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the library is imported
        from .huggingface import pull_from_hub

        path = pull_from_hub(found, revision, say)
    try:
        remember_pulled(name, path)
    except OSError as error:
        raise ModelDownloadError(
            f"{name} lies in {path}, but its name could not be stored in {models_folder()} "
            f"({error.strerror or error}). Make that folder writable and pull it again, or open it by "
            "its path."
        ) from error
    return path
