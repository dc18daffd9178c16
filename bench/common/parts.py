"""The benches of which a part can be measured alone."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final


class ContextPart(enum.StrEnum):
    """A part of the context bench."""

    TRACES = "traces"
    """Switching latencies on every side."""
    RETURNS = "returns"
    """What is computed again after tools have run, where memory is short."""
    RESTARTS = "restarts"
    """Times to the first token after a restart."""
    STORAGE = "storage"
    """What storing costs requests, and what survives damage and crashes."""
    COMPRESSION = "compression"
    """What contexts in fewer bits cost in accuracy."""


class SpeculationPart(enum.StrEnum):
    """A part of the speculation bench."""

    SIMULATED = "simulated"
    """Figures 5 to 7 of SpecTools in virtual time, on recorded tasks."""
    OVERHEAD = "overhead"
    """What speculating costs a turn."""
    PEERS = "peers"
    """Other implementations of speculation, on the same tasks."""
    PATTERNS = "patterns"
    """Predictions from recorded conversations."""
    SAMPLES = "samples"
    """Hit rates by samples a turn: the only part of given models."""


PARTS: Final[Mapping[str, type[enum.StrEnum]]] = {
    "context": ContextPart,
    "speculation": SpeculationPart,
}
"""The parts of each bench that has some."""


def parts_of(bench: str, names: Iterable[str]) -> list[enum.StrEnum]:
    """Return the parts of a bench with these names.

    Raises:
        ValueError: there is no such part; the message has those there are.
    """
    parts = PARTS[bench]
    found = []
    for name in names:
        try:
            found.append(parts(name))
        except ValueError:
            raise ValueError(f"bench {bench} has no part {name!r}. Use {', '.join(parts)}.") from None
    return found
