"""Parses the JSON text of a call's arguments."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from ..finite import parse_problem


def load_json(text: str) -> Any:
    """Parse strict JSON.

    Raises:
        ValueError: not JSON, NaN or an infinity, an integer of thousands of digits, or nested more deeply
            than Python's stack allows.
    """
    try:
        return json.loads(text, parse_constant=_reject, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(parse_problem(error)) from None


def parse_arguments(text: str | None) -> dict[str, Any]:
    """Parse the arguments of a call; None and empty text, which some servers write, are no arguments.

    Raises:
        ValueError: not a JSON object of finite values.
    """
    if text is None or text == "":
        return {}
    arguments = load_json(text)
    if not isinstance(arguments, dict):
        raise ValueError("not a JSON object")
    return arguments


def _reject(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value
