"""Decides what each forward pass computes. No threads, no clock, no I/O."""

from .scheduler import Scheduler, Slice
from .sequence import Sequence, SequenceState

__all__ = ["Scheduler", "Sequence", "SequenceState", "Slice"]
