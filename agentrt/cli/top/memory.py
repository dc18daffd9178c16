"""What KV memory is held for, in one line that adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_MOST: Final = 5


def held_for(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the largest rows of a frame's ``kv.held``, and the sum of all others."""
    parts = [f"{_owner(row)} {mib(row['bytes'])}" for row in rows[:_MOST]]
    if rest := rows[_MOST:]:
        parts.append(f"{len(rest)} others {mib(sum(row['bytes'] for row in rest))}")
    return "; ".join(parts)


def mib(size: float) -> str:
    """Return ``size``, in bytes, as text."""
    return f"{size / 2**20:,.1f} MiB"


def _owner(row: Mapping[str, Any]) -> str:
    purpose = row.get("held_for", "requests")
    if row["app"] is None:
        return f"({purpose})"
    context = "several" if row["context"] is None else row["context"]
    parts = [row["app"] or "-", context, "" if purpose == "requests" else f"({purpose})"]
    return " ".join(filter(None, parts))
