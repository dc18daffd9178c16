"""The parts of the context bench."""

from __future__ import annotations

import enum


class Part(enum.StrEnum):
    """A part of the bench, which can be measured alone."""

    TRACES = "traces"
    """Switching latencies on every side."""
    RESTARTS = "restarts"
    STORAGE = "storage"
    """What storing costs requests, and what survives damage and crashes."""
    COMPRESSION = "compression"
    """What contexts in fewer bits cost in accuracy."""
