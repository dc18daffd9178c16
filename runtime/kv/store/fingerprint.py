"""Fingerprints of what keys and values depend on, so that KV of another model or setting is never used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_FORMAT: Final = 1
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 4096


def kv_fingerprint(files: Iterable[Path], **facts: object) -> bytes:
    """Return a digest of the model in ``files`` and of ``facts``: equal where stored KV can be used.

    The facts are what else the KV depends on: tokenizer, layout of the cache, precision, devices, versions.
    They are told apart by their ``repr``. Of a file count its name, its size, and samples of its content,
    since reading gigabytes takes seconds.

    Raises:
        OSError: a file cannot be read.
    """
    stated = {name: repr(value) for name, value in facts.items()}
    text = json.dumps(
        {"format": _FORMAT, "files": [_facts_of(file) for file in files], **stated}, sort_keys=True
    )
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


def _facts_of(file: Path) -> tuple[str, int, str]:
    digest = hashlib.blake2b(digest_size=32)
    size = file.stat().st_size
    with file.open("rb") as stream:
        for sample in range(_SAMPLES):
            stream.seek(max(0, size - _SAMPLE_BYTES) * sample // (_SAMPLES - 1))
            digest.update(stream.read(_SAMPLE_BYTES))
    return file.name, size, digest.hexdigest()
