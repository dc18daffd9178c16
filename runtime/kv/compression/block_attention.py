"""What the attention to a block of a context was measured to be."""

from __future__ import annotations

from typing import NamedTuple


class BlockAttention(NamedTuple):
    """What one request has measured of a block."""

    density: float = 0.0
    """The attention that its tokens were paid by those that were computed, on average."""
    share: float = 0.0
    """How many of the tokens behind it, and of its own, those are; 0 if nothing was measured."""

    def joined(self, former: float) -> float:
        """Return the density over all tokens, that of the others being ``former``; 0 if that is unknown."""
        return former + (self.density - former) * self.share if former else self.density
