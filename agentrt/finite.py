"""Finite numbers: the only ones that requests, settings and stored figures may hold."""

from __future__ import annotations

import math
from typing import Annotated, Final, TypeAlias, TypeGuard

from pydantic import Field

_SHOWN_CHARACTERS: Final = 80

Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
"""The type of a field of a pydantic model that takes neither NaN nor an infinity."""


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether ``value`` is a number that a float can hold: no bool, NaN, infinity or larger integer."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def parse_problem(error: Exception) -> str:
    """Return why data cannot be parsed or written, without Python's advice for its own settings."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = str(error)
    return "an integer of thousands of digits" if "set_int_max_str_digits" in text else text


def shown(value: object) -> str:
    """Return the beginning of ``repr(value)`` for an error message, also of integers too long to write."""
    try:
        return repr(value)[:_SHOWN_CHARACTERS]
    except ValueError:  # more digits than sys.get_int_max_str_digits()
        return "an integer of thousands of digits"
