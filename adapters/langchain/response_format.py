"""Schemas of structured output as OpenAI's ``response_format``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.utils.function_calling import convert_to_openai_tool

_COMBINING: Final = {
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "unevaluatedProperties",
}
"""Keywords beside which an object may have properties of other schemas."""


def response_format_of(schema: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """Return the ``response_format`` of a schema.

    ``schema`` is a Pydantic class, a ``TypedDict``, a JSON schema with a title, a function definition, or a
    ``response_format``. An object has no properties but those that its schema names, unless it says
    otherwise: a model that may write any goes on writing some. With ``strict`` all properties are required.

    Raises:
        ValueError: LangChain cannot convert the schema.
    """
    described = schema if isinstance(schema, Mapping) else {}
    if described.get("type") in ("text", "json_object"):
        return dict(described)
    if described.get("type") == "json_schema":
        described = described.get("json_schema") or {}
    if "name" in described and "schema" in described:
        return {"type": "json_schema", "json_schema": {**described, "schema": _closed(described["schema"])}}
    function = convert_to_openai_tool(schema, strict=strict)["function"]
    parameters = function.get("parameters", {"type": "object", "properties": {}})
    return {"type": "json_schema", "json_schema": {"name": function["name"], "schema": _closed(parameters)}}


def _closed(schema: Any) -> Any:
    """Return ``schema`` with objects that have no other properties, as far as no other schema adds some."""
    if not isinstance(schema, dict) or "allOf" in schema:
        return schema
    closed = dict(schema)
    for name in ("properties", "$defs"):
        if isinstance(schema.get(name), dict):
            closed[name] = {key: _closed(part) for key, part in schema[name].items()}
    if "items" in schema:
        closed["items"] = _closed(schema["items"])
    if "properties" not in schema and isinstance(schema.get("anyOf"), list):
        closed["anyOf"] = [_closed(part) for part in schema["anyOf"]]
    if "properties" in schema and _COMBINING.isdisjoint(schema):
        closed.setdefault("additionalProperties", False)
    return closed
