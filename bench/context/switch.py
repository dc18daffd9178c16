"""How long a call waits for its context, from the kernels that ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.runtime.engine.trace import TracedKernel


def switch_seconds(kernels: Iterable[TracedKernel], submitted: float, lost: int) -> float:
    """Return the seconds from ``submitted`` until the first new token of a prompt could be computed.

    ``kernels`` are those of one request, which was served alone. The first ``lost`` tokens that they compute
    were known before: of a batch that computes both, they take their share of the time.
    """
    batches: dict[int, list[TracedKernel]] = {}
    for kernel in kernels:
        batches.setdefault(kernel.batch_id, []).append(kernel)
    end = submitted
    for batch in batches.values():
        begun, tokens = batch[0].started, batch[0].tokens
        if not lost:
            return begun - submitted
        known = min(lost, tokens)
        end = begun + (batch[-1].ended - begun) * known / tokens
        lost -= known
        if known < tokens:
            return end - submitted
    return end - submitted
