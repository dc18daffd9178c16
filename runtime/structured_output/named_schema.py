"""The JSON schemas of a request by name, and which of them cannot be held to a grammar."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class NamedSchema(NamedTuple):
    """One JSON schema of a request."""

    field: str
    """The field of the request that has it."""
    name: str
    """What it is the schema of, for error messages."""
    schema: Mapping[str, Any]
    """As it stands in the grammar."""


class UnsupportedPart(NamedTuple):
    """The part of a request's schemas that cannot be compiled."""

    field: str
    name: str
    reason: str


def find_unsupported_part(
    schemas: Sequence[NamedSchema], reason_of: Callable[[str], str | None]
) -> UnsupportedPart | None:
    """Return the first schema that cannot be compiled, or the property of it that cannot; None if all can.

    ``reason_of`` returns why a grammar cannot be compiled, or None if it can.
    """

    def reason_for(schema: Mapping[str, Any]) -> str | None:
        return reason_of(f"start: %json {json.dumps(schema)}")

    for field, name, schema in schemas:
        reason = reason_for(schema)
        if reason is None:
            continue
        optional = {**schema, "properties": {}, "required": []}
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and reason_for(optional) is None:
            for key, value in properties.items():
                found = reason_for({**optional, "properties": {key: value}})
                if found is not None:
                    return UnsupportedPart(field, f"property {key!r} of {name}", found)
        return UnsupportedPart(field, name, reason)
    return None
