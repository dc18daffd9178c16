"""Heads of a paged graph's attentions, which OpenVINO does not write with the graph."""

from __future__ import annotations

from typing import Final

import openvino as ov

from ..gather_sampled_rows import ATTENTION

_INFO: Final = "head_sizes"
_NAMES: Final = ("num_k_heads", "k_head_size", "num_v_heads", "v_head_size")
"""What the paged-attention transformation states of an attention, and the CPU reads."""
_KEY_CACHE_PORT: Final = 3


def state_head_sizes(model: ov.Model) -> None:
    """Store the heads of each layer in a paged ``model``, which keeps them when it is written and read."""
    layers = {
        _layer(node): [node.get_rt_info()[name].astype(int) for name in _NAMES] for node in _attentions(model)
    }
    model.set_rt_info(" ".join(str(size) for layer in sorted(layers) for size in layers[layer]), _INFO)


def apply_head_sizes(model: ov.Model) -> None:
    """Give each attention of a paged ``model`` that was read the heads that were stored for its layer."""
    stated = [int(size) for size in str(model.get_rt_info(_INFO).value).split()]
    for node in _attentions(model):
        begin, info = _layer(node) * len(_NAMES), node.get_rt_info()
        for name, size in zip(_NAMES, stated[begin : begin + len(_NAMES)], strict=True):
            info[name] = size


def _attentions(model: ov.Model) -> list[ov.Node]:
    return [node for node in model.get_ops() if node.get_type_name() == ATTENTION]


def _layer(attention: ov.Node) -> int:
    return int(attention.input_value(_KEY_CACHE_PORT).get_any_name().rpartition(".")[2])
