"""The version of agentrt."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path


def read_version() -> str:
    """Return the installed version, or that of the source tree where agentrt is not installed."""
    try:
        return metadata.version("agentrt")
    except metadata.PackageNotFoundError:
        pyproject = Path(__file__).parents[1] / "pyproject.toml"
        return str(tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["version"])
