"""The time between the kernels of a runtime's decode steps."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.runtime.engine.trace import TracedKernel


def rest_between_steps(kernels: Iterable[TracedKernel]) -> float:
    """Return the median seconds of a decode step in which none of its kernels runs.

    A step lasts from the start of its first kernel to that of the next step's. ``kernels`` are those of one
    request, in order, and have two decode steps at least.
    """
    decodes = (kernel for kernel in kernels if kernel.stage == "decode")
    steps = [list(step) for _, step in itertools.groupby(decodes, lambda kernel: kernel.batch_id)]
    return statistics.median(
        following[0].started - step[0].started - sum(kernel.ended - kernel.started for kernel in step)
        for step, following in itertools.pairwise(steps)
    )
