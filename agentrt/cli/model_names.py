"""Completion of the names of models on the command line."""

from __future__ import annotations

import contextlib


def complete_model(incomplete: str) -> list[str]:
    """Return the names that begin with ``incomplete``; where there is none, shells complete a path."""
    names = ["nano"]
    with contextlib.suppress(ImportError, OSError):  # a completion prints no errors
        from agentrt.runtime.model.hub.pulled import pulled_models

        names += pulled_models()
    return [name for name in names if name.startswith(incomplete)]
