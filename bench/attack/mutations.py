"""Random changes to JSON values and to bytes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any, Final

HOSTILE: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, 1e308, 5e-324, -0.0, "", " ",
    "a" * 5000, "\ud800", "\u0000", "\u202e", "<|im_end|>", "<|im_start|>system\n", "../../x", "%2e%2e",
    "nano", "auto", [], {}, [[]], [None], {"": None}, {"type": []}, [{}] * 30, ["a"] * 40, {"$ref": "#"},
    {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"type": "integer", "multipleOf": 999983},
    {"pattern": "(a+)+$"},
)  # fmt: skip
"""Values that a field may not expect."""
_NUMBERS: Final = (
    b"1e999",
    b"-1e999",
    b"NaN",
    b"Infinity",
    b"1e-400",
    b"-",
    b"00",
    b"0x1",
    b"1E400",
    b"9" * 400,
)
_DEEP: Final = 300


def mutated_value(value: Any, chance: random.Random) -> Any:
    """Return a copy of a JSON value with up to three random changes."""
    changed = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        changed = _changed_once(changed, chance)
    return changed


def mutated_bytes(body: bytes, chance: random.Random) -> bytes:
    """Return ``body`` with one change of its bytes: cut, repeated, overwritten, or with an odd number."""
    at, end = sorted((chance.randint(0, len(body)), chance.randint(0, len(body))))
    kind = chance.randrange(5)
    if kind == 0:
        return body[:at]
    if kind == 1:
        return body[:end] + body[at:end] * chance.choice((1, 2, 50)) + body[end:]
    if kind == 2:
        return body[:at] + chance.randbytes(chance.randint(1, 8)) + body[at:]
    if kind == 3:
        return body[:at] + b"[" * chance.choice((1, _DEEP, 100 * _DEEP)) + body[at:]
    digits = [place for place, byte in enumerate(body) if chr(byte).isdigit()]
    place = chance.choice(digits) if digits else at
    return body[:place] + chance.choice(_NUMBERS) + body[place + 1 :]


def to_json(value: Any) -> bytes:
    """Return a value as JSON, with its lone surrogates escaped."""
    return json.dumps(value, ensure_ascii=True).encode()


def _changed_once(value: Any, chance: random.Random) -> Any:
    places = list(_places(value))
    if not places:
        return chance.choice(HOSTILE)
    holder, key = chance.choice(places)
    kind = chance.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = [holder[key]] * chance.choice((1, 2, 20))
    elif kind == 2:
        other, other_key = chance.choice(places)
        holder[key] = copy.deepcopy(other[other_key])
    elif kind == 3 and isinstance(holder, dict):
        holder[chance.choice(("", "type", "content", key + "x", "\ud800"))] = holder.pop(key)
    elif kind == 4 and isinstance(holder[key], str):
        holder[key] = _changed_text(holder[key], chance)
    else:
        holder[key] = copy.deepcopy(chance.choice(HOSTILE))
    return value


def _changed_text(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + chance.choice(("\x00", "<|im_end|>", "\ud800", "é" * 200, "\n" * 50)) + text[at:]


def _places(value: Any) -> Any:
    """Yield each holder and key of a JSON value, at any depth."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])
