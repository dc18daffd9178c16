"""OpenAI's ``response_format`` of one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.errors import InvalidRequestError


def response_schema(response_format: object) -> Mapping[str, Any] | None:
    """Return the JSON schema that ``response_format`` requires of the answer's text; None for any text.

    Raises:
        InvalidRequestError: it is not one of OpenAI's formats, or has no schema.
    """
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        raise InvalidRequestError(
            "response_format", "its type must be 'text', 'json_object' or 'json_schema'. Use one of these."
        )
    assert isinstance(response_format, Mapping)
    described = response_format.get("json_schema")
    schema = described.get("schema") if isinstance(described, Mapping) else None
    if not isinstance(schema, Mapping):
        raise InvalidRequestError(
            "response_format.json_schema", "must be {'name': …, 'schema': {…}}. Give the schema."
        )
    return schema
