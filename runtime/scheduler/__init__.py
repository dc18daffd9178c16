"""Decides which kernel runs next on which XPU. No threads, no clock, no I/O."""

from .chooser import Dispatch
from .passes import Pass, Slice, Stage, inputs_of
from .policy import POLICIES, Policy, Preemption
from .scheduler import Scheduler
from .sequence import Sequence, SequenceState

__all__ = [
    "POLICIES",
    "Dispatch",
    "Pass",
    "Policy",
    "Preemption",
    "Scheduler",
    "Sequence",
    "SequenceState",
    "Slice",
    "Stage",
    "inputs_of",
]
