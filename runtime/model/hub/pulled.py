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


def remember_pulled(name: str, path: Path, folder: Path | None = None) -> None:
    """Keep that ``name`` was pulled to ``path``."""
    file = _file(name, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.part")
    partial.write_text(json.dumps({"name": name, "path": str(path)}), encoding="utf-8")
    partial.replace(file)


def find_pulled(name: str, folder: Path | None = None) -> Path | None:
    """Return where ``name`` was pulled to, if its files are still there.

    Raises:
        OSError: the place cannot be looked at.
    """
    try:
        path = Path(json.loads(_file(name, folder).read_text(encoding="utf-8"))["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return path if path.exists() else None


def pulled_models(folder: Path | None = None) -> dict[str, Path]:
    """Return every pulled name whose files are still there, with their path."""
    found = {}
    for file in sorted(_folder(folder).glob("*.json")):
        try:
            name = json.loads(file.read_text(encoding="utf-8"))["name"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not written by this module
        path = find_pulled(name, folder)
        if path is not None:
            found[name] = path
    return found


def forget_pulled(name: str, folder: Path | None = None) -> None:
    """Forget ``name``; its files are left alone."""
    _file(name, folder).unlink(missing_ok=True)


def remove_pulled(name: str, folder: Path | None = None) -> None:
    """Forget ``name``, and delete its file if that is from an address and no other name has it.

    Files of the hub stay in the hub's cache, which other programs share.

    Raises:
        OSError: the file cannot be deleted.
    """
    others = pulled_models(folder)
    path = others.pop(name, None)
    if path is not None and path.is_relative_to(downloads_folder(folder)) and path not in others.values():
        path.unlink()
        with contextlib.suppress(OSError):  # another file of this digest is there
            path.parent.rmdir()
    forget_pulled(name, folder)


def downloads_folder(folder: Path | None = None) -> Path:
    """Return the folder of the files from addresses, each in a folder named after its digest."""
    return (folder or models_folder()) / "downloads"


def _folder(folder: Path | None) -> Path:
    return (folder or models_folder()) / "pulled"


def _file(name: str, folder: Path | None) -> Path:
    return _folder(folder) / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
