"""Downloads one file from an https address: resumed where it broke off, and verified before it is used."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import httpx2

from agentrt.errors import ModelDownloadError

from .names import path_problem

Progress = Callable[[int, int | None], None]
"""Takes the bytes that are there and the bytes of the whole file, None if the server does not say."""
Say = Callable[[str], None]
"""Takes a line about what is waited for."""

_TIMEOUT_S: Final = 10.0
"""The longest wait for a connection or for the next bytes, as at the hub."""
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def download_file(url: str, folder: Path, sha256: str, progress: Progress | None, say: Say) -> Path:
    """Download ``url`` into ``folder``, in a folder named after its digest, and return the file's path.

    A file that is there already is not downloaded again. ``sha256`` is the hexadecimal digest that the file
    must have. ``say`` is told which server is asked.

    Raises:
        ModelDownloadError: the address is not https or ends in no name of a file, the server refuses, cannot
            be reached or sends more than it announced, the disk is full, or the file has another digest. What
            was downloaded is kept, unless it is too much or the digest is wrong.
    """
    address = _parsed(url)
    if address.scheme != "https" and address.hostname not in _LOCAL:
        raise ModelDownloadError(
            f"{url} is not an https address. Use https, which nobody can change on its way."
        )
    digest = sha256.lower()
    name = unquote(address.path.rpartition("/")[2]) or "model.gguf"
    problem = path_problem(name)
    if problem is not None:
        raise ModelDownloadError(
            f"{url!r} ends in {name!r}, under which nothing can be stored: {problem}. Give the address of a "
            "file."
        )
    target = folder / digest / name
    try:
        if not target.exists():
            say(f"asking {address.hostname} for {name}")
            partial = target.with_name(f"{name}.part")
            _fetch(url, partial, progress or (lambda done, total: None))
            with partial.open("rb") as opened:
                found = hashlib.file_digest(opened, "sha256").hexdigest()
            if found != digest:
                raise _deleted(partial, f"{url} is not the file with SHA-256 {digest}")
            partial.replace(target)
    except httpx2.HTTPError as error:
        raise ModelDownloadError(
            f"{url} could not be downloaded ({type(error).__name__}: {error}). "
            "Check the network and the address, and pull it again: it goes on where it broke off."
        ) from error
    except OSError as error:
        raise ModelDownloadError(
            f"{url} could not be stored in {target.parent} ({error.strerror or error}). "
            "Free some space or make the folder writable, and pull it again: it goes on where it broke off."
        ) from error
    return target


def _parsed(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        _ = address.port  # parses it
        httpx2.URL(url)
        problem = None if address.hostname else "it has no host"
    except (ValueError, httpx2.InvalidURL) as error:
        problem = str(error)
    if problem is not None:
        raise ModelDownloadError(
            f"{url!r} is not the address of a file: {problem}. Write https://, its host and its path."
        )
    return address


def _fetch(url: str, partial: Path, progress: Progress) -> None:
    """Download what is missing of ``partial``, whose folder is made once the server answers."""
    done = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with httpx2.stream("GET", url, headers=headers, follow_redirects=True, timeout=_TIMEOUT_S) as answer:
        if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it is there
        answer.raise_for_status()
        partial.parent.mkdir(parents=True, exist_ok=True)
        if answer.status_code != httpx2.codes.PARTIAL_CONTENT:
            done = 0
        free = shutil.disk_usage(partial.parent).free
        length = answer.headers.get("content-length")
        total = None if length is None else done + int(length)
        if total is not None and total - done > free:
            raise OSError(None, f"{(total - done) / 1e9:.1f} GB do not fit on the disk")
        # A server that announces nothing could send for ever: the other half of the disk is for others.
        most = done + free // 2 if total is None else total
        with partial.open("ab" if done else "wb") as file:
            for piece in answer.iter_raw():
                done += len(piece)
                if done > most:
                    raise _deleted(
                        partial, f"{url} sends more bytes than it announced or half of the disk has"
                    )
                file.write(piece)
                progress(done, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and done != total:
        raise httpx2.ReadError(f"only {done} of {total} bytes came")


def _deleted(partial: Path, problem: str) -> ModelDownloadError:
    """Delete a file that is not the wanted one, and return the error that says so."""
    partial.unlink()
    with contextlib.suppress(OSError):  # other files of this digest are there
        partial.parent.rmdir()
    return ModelDownloadError(f"{problem}. It was deleted. Check the address and the digest.")
