"""Differences of keys and values."""

from __future__ import annotations

import numpy as np

from agentrt.bench.context.arena import Content
from agentrt.bench.context.recompute import largest_difference


def content(*values: float) -> Content:
    return {bytes([at]): [np.array([each, 0], np.float32).view(np.uint8)] for at, each in enumerate(values)}


def test_the_largest_difference_counts() -> None:
    assert largest_difference(content(1, 2, 3), content(1, 2, 3, 4)) == 0
    assert largest_difference(content(1, 2, 3), content(1, 2.5, 2.75)) == 0.5


def test_a_block_that_is_gone_is_no_equal_block() -> None:
    assert largest_difference(content(1, 2), content(1)) is None
    assert largest_difference({}, content(1)) is None
