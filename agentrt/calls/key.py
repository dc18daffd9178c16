"""Canonical keys: equal tool calls have equal keys (SpecTools §3.1: the key of the futures cache)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from ..errors import InvalidRequestError

MAX_KEY_CHARACTERS = 1 << 18
"""The longest key in characters. Calls with larger arguments are not worth predicting."""

_MAX_DEPTH = 64
_MAX_INTEGER_BITS = 14_000
"""Python writes integers of up to 4300 digits."""
_TEXTUAL = (
    datetime.date,  # also datetime
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    pathlib.PurePath,
    uuid.UUID,
)


def canonical_key(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the key of a call: the tool's name and its arguments as JSON with sorted keys.

    ``arguments`` must be validated by the tool's schema first, so that defaults are filled in and values are
    coerced: then ``1`` and ``1.0`` differ only if the tool can distinguish them. Two calls have the same key
    only if no tool can distinguish them. Supported are JSON's types, tuples, enums, sets, bytes, dates,
    decimals, UUIDs, paths, and pydantic models and dataclasses, of which all fields count, also those
    excluded from serialisation. A tuple differs from a list: in a call from JSON it is there only if the
    schema makes one of every list.

    Raises:
        InvalidRequestError: NaN, an infinity or an integer of thousands of digits, an unsupported type,
            nesting deeper than 64 levels (as in a structure that contains itself), or a key longer than
            ``MAX_KEY_CHARACTERS``.
    """
    text = json.dumps([name, _jsonable(arguments, 0)], sort_keys=True, separators=(",", ":"), allow_nan=False)
    if len(text) > MAX_KEY_CHARACTERS:
        raise InvalidRequestError(
            "arguments",
            f"{len(text)} characters of JSON, more than the {MAX_KEY_CHARACTERS} a key may have. "
            "Pass large data by reference (a path, an id).",
        )
    return text


def _jsonable(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise InvalidRequestError("arguments", f"nested deeper than {_MAX_DEPTH} levels. Flatten them.")
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise InvalidRequestError("arguments", "an integer of thousands of digits. Use a smaller one.")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise InvalidRequestError("arguments", f"{value} is not a JSON number. Use a finite number.")
        return value
    inner = depth + 1
    if isinstance(value, Mapping):
        return {_text_of_key(key): _jsonable(item, inner) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item, inner) for item in value]
    if isinstance(value, tuple):  # a tool that takes both can distinguish them
        return _tagged(value, [_jsonable(item, inner) for item in value])
    if isinstance(value, (set, frozenset)):
        return _tagged(value, sorted((_jsonable(item, inner) for item in value), key=json.dumps))
    if isinstance(value, enum.Enum):
        return _tagged(value, value.name)
    if isinstance(value, (bytes, bytearray)):
        return _tagged(value, value.hex())
    if isinstance(value, _TEXTUAL):
        return _tagged(value, str(value))
    if isinstance(value, BaseModel):
        return _tagged(value, _jsonable({**value.__dict__, **(value.model_extra or {})}, inner))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _tagged(value, _jsonable(fields, inner))
    raise InvalidRequestError(
        "arguments",
        f"a value of type {type(value).__qualname__} has no canonical form. "
        "Give the tool a canonical= function, or an argument of a JSON type.",
    )


def _text_of_key(key: Any) -> str:
    # json.dumps writes the keys 1 and "1" alike; the type's name distinguishes them, and "1" from "int:1".
    return key if type(key) is str and ":" not in key else f"{type(key).__qualname__}:{key}"


def _tagged(value: Any, content: Any) -> dict[str, Any]:
    return {f":{type(value).__qualname__}": content}  # which no mapping has as a key
