"""The pulled models: a small file per name that says where the model lies. Reading it needs no network."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

import platformdirs


def models_folder() -> Path:
    """Return the user's cache folder for models."""
    return platformdirs.user_cache_path("agentrt") / "models"


def downloads_folder() -> Path:
    """Return the folder of the files from addresses, each in a folder named after its digest."""
    return models_folder() / "downloads"


def remember_pulled(name: str, path: Path) -> None:
    """Keep that ``name`` was pulled to ``path``."""
    file = _file(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.part")
    partial.write_text(json.dumps({"name": name, "path": str(path)}), encoding="utf-8")
    partial.replace(file)


def find_pulled(name: str) -> Path | None:
    """Return where ``name`` was pulled to, if its files are still there.

    Raises:
        OSError: the place cannot be looked at.
    """
    _, path = _read(_file(name))
    return path if path is not None and path.exists() else None


def pulled_models() -> dict[str, Path]:
    """Return every pulled name whose files are still there, with their path."""
    found = map(_read, sorted(_folder().glob("*.json")))
    return {name: path for name, path in found if path is not None and path.exists()}


def remove_pulled(name: str) -> None:
    """Forget ``name``, and delete its file if that is from an address and no other name has it.

    Files of the hub stay in the hub's cache, which other programs share.

    Raises:
        OSError: the file cannot be deleted.
    """
    others = pulled_models()
    path = others.pop(name, None)
    if path is not None and path.is_relative_to(downloads_folder()) and path not in others.values():
        path.unlink()
        with contextlib.suppress(OSError):  # another file of this digest is there
            path.parent.rmdir()
    _file(name).unlink(missing_ok=True)


def _read(file: Path) -> tuple[str, Path | None]:
    """Return the name and the path in ``file``; no path if this module did not write it."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return str(stored["name"]), Path(stored["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", None


def _folder() -> Path:
    return models_folder() / "pulled"


def _file(name: str) -> Path:
    return _folder() / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
