"""The converted GGUF files of a user: each is converted once, whatever its path, and kept until removed."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

from agentrt.errors import ModelFormatError

from ..file_lock import file_lock
from .file_format import Header
from .source import Source, read_source

Progress = Callable[[float], None]
"""Called with the share of the weights that is converted, from 0 to 1."""

_CONVERSION: Final = 4
"""Part of the directory's name. Increase it when the result of a conversion changes."""
_CONFIG: Final = "config.json"
"""Written last: a directory with this file is complete."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 64 * 2**10
_UNFINISHED: Final = ".converting-"
_LOCK: Final = ".lock-"


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A converted model on disk."""

    path: Path
    converted_from: str
    """Name of the GGUF file."""
    size: int
    """Bytes on disk."""
    used: float
    """When it was last opened, in seconds since the epoch."""


def convert_gguf(
    file: Path, cache_folder: Path | None = None, progress: Progress = lambda share: None
) -> Path:
    """Return the model directory of a GGUF file, converting the file unless that was done before.

    ``file`` may be any file of a model that is split into several. The directory is kept in ``cache_folder``,
    by default the user's cache folder; its name depends on the content of the file, not on its path.

    Other processes find a complete directory or none. A second process that opens the same file waits for the
    first and uses its result; what an interrupted one has left is deleted.

    Raises:
        ModelFormatError: the file is damaged or of a kind that cannot be converted, a file of a split model
            is missing, or the disk is full.
    """
    source = read_source(file)
    cache = cache_folder or default_cache_folder()
    name = f"{source.name}-{_fingerprint(source.headers)}"
    directory = cache / name
    try:
        if not _is_complete(directory):
            cache.mkdir(parents=True, exist_ok=True)
            with file_lock(cache / f"{_LOCK}{name}"):
                if not _is_complete(directory):
                    _convert(source, cache / f"{_UNFINISHED}{name}", directory, progress)
        with contextlib.suppress(OSError):
            os.utime(directory)
    except ModelFormatError as error:
        raise ModelFormatError(f"{file} cannot be converted: {error}") from error
    except RuntimeError as error:  # of OpenVINO
        raise ModelFormatError(
            f"{file} cannot be converted: {str(error).strip().splitlines()[-1]} Download the file again, or "
            "another conversion of the model."
        ) from error
    except OSError as error:
        raise ModelFormatError(
            f"{file} cannot be converted in {cache} ({error.strerror}). Free disk space there, or make it "
            "writable."
        ) from error
    return directory


def cached_models(cache_folder: Path | None = None) -> list[CachedModel]:
    """Return the converted models, the last used first."""
    return sorted(_cached(cache_folder or default_cache_folder()), key=lambda model: -model.used)


def remove_cached_model(model: CachedModel) -> None:
    """Delete a converted model. It is converted again when its GGUF file is opened.

    Waits while a process converts it. Processes that have it open keep what they have mapped, except on
    Windows, where it cannot be deleted meanwhile.

    Raises:
        OSError: it cannot be deleted.
    """
    with file_lock(model.path.with_name(f"{_LOCK}{model.path.name}")):
        (model.path / _CONFIG).unlink(missing_ok=True)  # first: without it the directory is incomplete
        shutil.rmtree(model.path)


def default_cache_folder() -> Path:
    """Return the folder of the user's converted models."""
    return platformdirs.user_cache_path("agentrt") / "models"


def _convert(source: Source, unfinished: Path, directory: Path, progress: Progress) -> None:
    """Write ``directory`` by way of ``unfinished``. The caller holds the lock of both."""
    for left in (unfinished, directory):
        if left.exists():  # of a process that was interrupted, or of an older version of this package
            shutil.rmtree(left)
    # Imported here: a model that is converted already opens without the tokenizer converter.
    from .conversion import write_model

    unfinished.mkdir()
    try:
        write_model(source, unfinished, unfinished / _CONFIG, progress)
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _is_complete(directory: Path) -> bool:
    return (directory / _CONFIG).is_file()


def _cached(cache: Path) -> Iterator[CachedModel]:
    for config in cache.glob(f"*/{_CONFIG}"):
        directory = config.parent
        if directory.name.startswith(_UNFINISHED):
            continue
        try:
            name = json.loads(config.read_text(encoding="utf-8")).get("converted_from", directory.name)
            size = sum(file.stat().st_size for file in directory.iterdir())
            yield CachedModel(directory, str(name), size, directory.stat().st_mtime)
        except (OSError, ValueError, AttributeError):
            continue  # being removed by another process


def _fingerprint(headers: Sequence[Header]) -> str:
    """Hash the headers, samples of the weights, and the versions of what converts them.

    Training and quantisation change weights everywhere, so that samples from all over a file distinguish
    models without reading gigabytes on each open.
    """
    tokenizers = importlib.metadata.version("openvino-tokenizers")
    digest = hashlib.sha256(f"{_CONVERSION} {tokenizers}".encode())
    for header in headers:
        size = header.file.stat().st_size
        digest.update(str(size).encode())
        with header.file.open("rb") as stream:
            digest.update(stream.read(header.size))
            for sample in range(_SAMPLES):
                stream.seek(header.size + (size - header.size) * sample // _SAMPLES)
                digest.update(stream.read(_SAMPLE_BYTES))
            stream.seek(-min(size, _SAMPLE_BYTES), os.SEEK_END)
            digest.update(stream.read())
    return digest.hexdigest()[:32]
