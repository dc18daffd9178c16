"""JSON that an engine sends, parsed where it is small enough not to stop the event loop."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from ..http.strict_json import MAX_VALUES, has_more_values


def parse_engine_json(data: bytes) -> Any:
    """Return the JSON value that ``data`` is.

    Raises:
        ValueError: it is no JSON, is nested too deeply, or has too many values.
    """
    if has_more_values(data, MAX_VALUES):
        raise ValueError(f"it has more than {MAX_VALUES} JSON values")
    return from_json(data)
