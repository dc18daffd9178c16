"""The contexts of all models in a folder are encrypted with one key, or none of them are."""

from __future__ import annotations

import io
from pathlib import Path

from agentrt.errors import ContextKeyError

from . import store_file
from .changes import disk_errors
from .disk import Disk
from .keys import KeySource
from .record_format import FileKind, FileStart, OtherKeyError, RefusedError


def check_encrypted_alike(folder: Path, source: KeySource | None) -> None:
    """Check that the stores beside ``folder`` are encrypted as its own is to be: with the key of ``source``.

    Raises:
        ContextKeyError: one of them is not.
        ContextStoreError: one of them cannot be read.
    """
    with disk_errors(folder.parent):
        files = sorted(folder.parent.glob(f"*/{store_file.NAME}"))
        others = [file for file in files if file.parent != folder and file.is_file()]
        if not others:
            return
        key = None if source is None else source.load()
        for file in others:
            if (difference := _difference(file, source, key)) is not None:
                raise ContextKeyError(
                    f"{file} {difference}. The contexts of all models in {folder.parent} are encrypted with "
                    "one key, or none are: use the same context_key, or another context_folder."
                )


def _difference(file: Path, source: KeySource | None, key: bytes | None) -> str | None:
    try:
        with io.BufferedReader(Disk().open(file)) as stream:
            FileStart.read(stream, FileKind.STORE, key)
    except OtherKeyError as error:
        return str(error)
    except (RefusedError, FileNotFoundError):
        return None  # damaged, of another version, or gone: it says so itself when it is opened
    return None if source is None or key is not None else "is not encrypted"
