"""The numbers that settings and requests may hold."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentrt.finite import is_finite, shown


@pytest.mark.parametrize("value", [0, -1, 1.5, 5e-324, -1e308, 2**1023])
def test_numbers_that_a_float_can_hold(value: float) -> None:
    assert is_finite(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2**1024, True, "1", None, [1]])
def test_other_values(value: Any) -> None:
    assert not is_finite(value)
    assert not is_finite(-(10**5000))


def test_a_value_is_shown_in_one_line_of_bounded_length() -> None:
    assert shown("x") == "'x'"
    assert len(shown("x" * 10**6)) < 100
    assert shown(10**5000) == "an integer of thousands of digits"
