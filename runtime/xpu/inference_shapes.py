"""The shapes that a compiled piece was run with, of which an interrupted inference leaves traces."""

from __future__ import annotations

import itertools
from typing import Final, TypeAlias

Shape: TypeAlias = tuple[int, ...]
"""The lengths that the shapes of a piece's operations depend on: tokens, and logits rows where it has them.
Attention alone reads inputs of other lengths, as they are at each run."""

_MOST: Final = 8
"""Interruptions after which a piece is settled in any case."""


class InferenceShapes:
    """Which shapes a compiled piece can be run with after an interruption.

    OpenVINO's CPU plugin prepares an operation anew if the shapes of its inputs are not those with which it
    ran last, and it prepares operations some way ahead of the one that runs. So an interrupted inference
    leaves operations that ran last with an earlier shape and are prepared for the interrupted one. With
    inputs of the earlier shape they would not be prepared anew: they would fail, or compute with memory of
    the wrong size. Inputs of any other shape are safe, and so are those of the interrupted inference.
    """

    def __init__(self) -> None:
        """Of a piece that was never run."""
        self.last: Shape | None = None
        """With which it was run last."""
        self._earlier: list[Shape] = []

    def end(self, shape: Shape) -> None:
        """Note an inference that has ended."""
        self.last = shape
        if self._earlier:
            self._earlier = []

    def interrupt(self, shape: Shape) -> None:
        """Note one that was interrupted."""
        if self.last is not None:  # else no operation has run with another one
            self._earlier.append(self.last)
        self.last = shape

    def allow(self, shape: Shape) -> bool:
        """Return whether the piece computes correctly with ``shape`` now; else run :meth:`unlike` first."""
        if not self._earlier:
            return True
        if len(self._earlier) > _MOST:
            return False
        assert self.last is not None
        return not any(
            length == before != interrupted
            for earlier in self._earlier
            for length, before, interrupted in zip(shape, earlier, self.last, strict=True)
        )

    def unlike(self) -> Shape:
        """Return a small shape of an interrupted piece, with no length that would not be prepared anew."""
        assert self.last is not None
        seen = zip(*self._earlier, self.last, strict=True)
        return tuple(next(each for each in itertools.count(1) if each not in lengths) for lengths in seen)
