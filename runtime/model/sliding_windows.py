"""Sliding windows of a graph's layers, which the paged-attention transformation does not read from masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import openvino as ov
import openvino.opset15 as opset

_INFO: Final = "sliding_windows"
_KEY_CACHE_PORT: Final = 3
_WINDOW_PORT: Final = 10


def state_sliding_windows(model: ov.Model, windows: Sequence[int | None]) -> None:
    """Store the window of each layer in ``model``, which keeps it when it is written and read."""
    if any(windows):
        model.set_rt_info(" ".join(str(window or 0) for window in windows), _INFO)


def apply_sliding_windows(model: ov.Model) -> None:
    """Give each paged attention of ``model`` the window that was stored for its layer, if any was."""
    if not model.has_rt_info(_INFO):
        return
    windows = str(model.get_rt_info(_INFO).value).split()
    for node in model.get_ordered_ops():
        if node.get_type_name() == "PagedAttentionExtension":
            layer = node.input_value(_KEY_CACHE_PORT).get_any_name().rpartition(".")[2]
            window = opset.constant(np.array(int(windows[int(layer)]), np.int32))
            node.input(_WINDOW_PORT).replace_source_output(window.output(0))
