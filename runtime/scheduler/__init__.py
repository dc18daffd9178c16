"""Decides which kernel runs next on which XPU. No threads, no clock, no I/O."""

from .batch import Batch, ScheduledChunk, Stage, inputs_of
from .kernel_selector import Dispatch
from .policy import POLICIES, Policy, Preemption
from .scheduler import Scheduler
from .sequence import Sequence, SequenceState

__all__ = [
    "POLICIES",
    "Batch",
    "Dispatch",
    "Policy",
    "Preemption",
    "ScheduledChunk",
    "Scheduler",
    "Sequence",
    "SequenceState",
    "Stage",
    "inputs_of",
]
