"""The operations of a paged graph that look beyond the token at hand: attention and recurrence.

All others compute each token by itself. A hybrid model has layers whose context is a state of fixed size
instead of keys and values: a short convolution (LFM2), or one in front of a gated delta rule (Qwen3-Next,
Qwen3.5).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import openvino as ov

ATTENTION: Final = "PagedAttentionExtension"
CONVOLUTION: Final = "PagedCausalConv1D"
DELTA_RULE: Final = "PagedGatedDeltaNet"


def sequence_ops(nodes: Iterable[ov.Node]) -> list[ov.Node]:
    """Return the operations among ``nodes`` that read or write a sequence's context, in order."""
    return [node for node in nodes if node.get_type_name() in (ATTENTION, CONVOLUTION, DELTA_RULE)]


def mixers(nodes: Iterable[ov.Node]) -> list[ov.Node]:
    """Return the last sequence operation of each layer, in order.

    A convolution in front of a delta rule belongs to the same layer.
    """
    found = sequence_ops(nodes)
    return [
        node
        for node, following in zip(found, [*found[1:], None], strict=True)
        if not (
            node.get_type_name() == CONVOLUTION
            and following is not None
            and following.get_type_name() == DELTA_RULE
        )
    ]
