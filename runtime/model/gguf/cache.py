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
from typing import TYPE_CHECKING, Final

from agentrt.errors import ModelFormatError

from ...files.checksums import CHECKSUMS
from ...files.file_lock import file_lock
from ..hub.pulled import models_folder
from ..native.library import NativeLibrary

if TYPE_CHECKING:
    from .file_format import Source

Progress = Callable[[float], None]
"""Called with the share of the weights that is converted, from 0 to 1."""

_CONVERSION: Final = 9
"""Part of the directory's name. Increase it when the result of a conversion changes."""
_CONFIG: Final = "config.json"
"""Written last, with the size of each other file: a directory whose files have these sizes is complete."""
_CONTENT: Final = "content"
"""Entry of the config: a digest of what was converted."""
_NUMBER: Final = "conversion"
"""Entry of the config: the :data:`_CONVERSION` of then."""
NATIVE: Final = "native"
"""Entry of the config: whether the graph has operations of the native library."""
_HEADER_BYTES: Final = 32 * 2**20
"""Bytes at the beginning of a file that are hashed whole; the header of a large vocabulary has 16 MB."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 64 * 2**10
_UNFINISHED: Final = ".converting-"
_LOCK: Final = ".lock-"


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A converted model on disk."""

    path: Path
    converted_from: str
    """Name that the GGUF file had when it was converted."""
    size: int
    """Bytes on disk."""
    used: float
    """When it was last opened, in seconds since the epoch."""


def find_conversion(
    file: Path,
    cache_folder: Path | None = None,
    native: Callable[[], NativeLibrary | None] | None = None,
) -> Path | None:
    """Return the directory that :func:`convert_gguf` has written before for a model in one file; else None.

    Does not parse the file, which takes a quarter of a second. ``native`` returns the library, and is only
    called if there is a conversion.
    """
    cache, content = cache_folder or models_folder(), _content([file])
    versions = (None, NativeLibrary.panels_version)
    if not any(_complete_directory(cache, _fingerprint(content, version)) for version in versions):
        return None
    directory = _complete_directory(cache, _fingerprint(content, _panels(native and native())))
    if directory is not None:
        with contextlib.suppress(OSError):
            os.utime(directory)
    return directory


def convert_gguf(
    source: Source,
    cache_folder: Path | None = None,
    progress: Progress = lambda share: None,
    library: NativeLibrary | None = None,
) -> Path:
    """Return the model directory of a GGUF model, converting the model unless that was done before.

    The directory is kept in ``cache_folder``, by default the user's cache folder. It is found by the content
    of the model's files, whatever their names and folders; its name begins with the name that the model had
    when it was converted. With ``library`` the model has its operations, and is kept beside the other.

    Other processes find a complete directory or none. A second process that opens the same model waits for
    the first and uses its result. A directory with a file that is missing or has another size than when it
    was written is deleted and converted again, and a new conversion replaces those of the same files by
    older versions of this package. What killed processes have left of any model is deleted.

    Raises:
        ModelFormatError: the model is damaged or of a kind that cannot be converted, or the disk is full.
    """
    file = source.headers[0].file
    cache = cache_folder or models_folder()
    try:
        content = _content([header.file for header in source.headers])
        fingerprint = _fingerprint(content, _panels(library))
        remove_interrupted(cache)
        directory = _complete_directory(cache, fingerprint)
        if directory is None:
            cache.mkdir(parents=True, exist_ok=True)
            with file_lock(cache / f"{_LOCK}{fingerprint}"):
                directory = _complete_directory(cache, fingerprint)
                if directory is None:
                    directory = _convert(source, cache, content, progress, library)
                    _remove_superseded(cache, content)
        with contextlib.suppress(OSError):
            os.utime(directory)
    except ModelFormatError as error:
        raise ModelFormatError(f"{file} cannot be converted: {error}") from error
    except OSError as error:
        raise ModelFormatError(
            f"{file} cannot be converted in {cache} ({error.strerror}). Free disk space there, or make it "
            "writable."
        ) from error
    except Exception as error:  # of OpenVINO, or of arithmetic with numbers that no model has
        from ..openvino_core import openvino_message

        raise ModelFormatError(
            f"{file} cannot be converted: {openvino_message(error)} Download the file again, or another "
            "conversion of the model."
        ) from error
    return directory


def cached_models(cache_folder: Path | None = None) -> list[CachedModel]:
    """Return the converted models, the last used first."""
    return sorted(_cached(cache_folder or models_folder()), key=lambda model: -model.used)


def remove_cached_model(model: CachedModel) -> None:
    """Delete a converted model. It is converted again when its GGUF file is opened.

    Waits while a process converts it. Processes that have it open keep what they have mapped, except on
    Windows, where it cannot be deleted meanwhile.

    Raises:
        OSError: it cannot be deleted.
    """
    _remove(model.path)


def remove_interrupted(cache_folder: Path | None = None) -> None:
    """Delete what killed processes have left. A conversion in progress holds its lock and is left alone."""
    cache = cache_folder or models_folder()
    for left in cache.glob(f"{_UNFINISHED}*"):
        lock = cache / f"{_LOCK}{left.name.removeprefix(_UNFINISHED)}"
        with contextlib.suppress(OSError), file_lock(lock, wait=False):
            shutil.rmtree(left)


def reject_cached_model(directory: Path) -> None:
    """Let ``directory``, which is damaged, be converted again when its GGUF file is opened next."""
    with contextlib.suppress(OSError):
        (directory / _CONFIG).unlink()


def _remove(directory: Path, *, wait: bool = True) -> None:
    """Delete a conversion. Unless it is to ``wait``, one that a process is converting is an OSError."""
    fingerprint = directory.name.rpartition("-")[2]
    with file_lock(directory.with_name(f"{_LOCK}{fingerprint}"), wait=wait):
        (directory / _CONFIG).unlink(missing_ok=True)  # first: without it the directory is incomplete
        shutil.rmtree(directory)


def _remove_superseded(cache: Path, content: str) -> None:
    """Delete the conversions of ``content`` by older versions of this package, if the system allows it.

    Called behind a new conversion only: an older version that is still used converts once more, and stays.
    """
    for config in cache.glob(f"*/{_CONFIG}"):
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            found = json.loads(config.read_text(encoding="utf-8"))
            if found.get(_CONTENT) == content and found.get(_NUMBER) < _CONVERSION:
                _remove(config.parent, wait=False)


def _convert(
    source: Source, cache: Path, content: str, progress: Progress, library: NativeLibrary | None
) -> Path:
    """Write and return the directory of ``source``. The caller holds the lock of its fingerprint."""
    fingerprint = _fingerprint(content, _panels(library))
    directory = cache / f"{source.name}-{fingerprint}"
    unfinished = cache / f"{_UNFINISHED}{fingerprint}"
    # Of a process that was interrupted, of an older version of this package, or damaged.
    for left in _directories(cache, fingerprint):
        shutil.rmtree(left)
    if unfinished.exists():
        shutil.rmtree(unfinished)
    # Imported here: a model that is converted already opens without the tokenizer converter.
    from .conversion import write_model

    unfinished.mkdir()
    try:
        entries = {_CONTENT: content, _NUMBER: _CONVERSION, NATIVE: library is not None}
        write_model(source, unfinished, unfinished / _CONFIG, progress, entries, library)
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return directory


def _complete_directory(cache: Path, fingerprint: str) -> Path | None:
    return next(filter(_is_complete, _directories(cache, fingerprint)), None)


def _directories(cache: Path, fingerprint: str) -> list[Path]:
    """Return the conversions of one content, complete or not, but not the one that is being written."""
    found = cache.glob(f"*-{fingerprint}")
    return sorted(path for path in found if not path.name.startswith((_LOCK, _UNFINISHED)))


def _is_complete(directory: Path) -> bool:
    """Whether the files of a directory have the sizes that were written down when it was converted."""
    try:
        files = json.loads((directory / _CONFIG).read_text(encoding="utf-8"))["files"]
        sizes_match = all((directory / name).stat().st_size == size for name, size in files.items())
        return CHECKSUMS in files and sizes_match
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False  # a file is missing or damaged, or an older version of this package wrote it


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


def _panels(library: NativeLibrary | None) -> int | None:
    return None if library is None else library.panels_version


def _fingerprint(content: str, panels: int | None) -> str:
    """Hash ``content`` and the versions of what converts it."""
    tokenizers = importlib.metadata.version("openvino-tokenizers")
    written = "" if panels is None else f" panels {panels}"
    return hashlib.sha256(f"{_CONVERSION} {tokenizers} {content}{written}".encode()).hexdigest()[:32]


def _content(files: Sequence[Path]) -> str:
    """Hash the beginnings of ``files``, which hold their headers, and samples of the weights.

    Training and quantisation change weights everywhere, so that samples from all over a file distinguish
    models without reading gigabytes on each open.
    """
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(str(size).encode())
        with file.open("rb") as stream:
            digest.update(stream.read(_HEADER_BYTES))
            for sample in range(_SAMPLES):
                stream.seek(max(size - _HEADER_BYTES, 0) * sample // _SAMPLES + min(size, _HEADER_BYTES))
                digest.update(stream.read(_SAMPLE_BYTES))
            stream.seek(-min(size, _SAMPLE_BYTES), os.SEEK_END)
            digest.update(stream.read())
    return digest.hexdigest()[:32]
