"""Random requests to every route of an OpenAPI document, some of which fit it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from .mutations import HOSTILE, mutated_bytes, to_json
from .wire import JSON, Request

_HOSTILE_SHARE: Final = 0.06
"""Of the values in a body."""
_LEFT_OUT_SHARE: Final = 0.6
"""Of the optional fields."""
_CHANGED_SHARE: Final = 0.1
"""Of the bodies, whose bytes are changed as well."""
_DEEPEST: Final = 8
_NAMES: Final = (
    "a",
    "none",
    "chatcmpl-00",
    "resp_00",
    "ctx_00",
    "..",
    "%",
    "ü",
    "\x00",
    "a" * 3000,
    "a/b",
    " ",
    "",
)


class ApiRequests:
    """Random requests to the routes of a document."""

    def __init__(self, document: Mapping[str, Any], chance: random.Random) -> None:
        """``document`` is the server's ``/openapi.json``."""
        self._document = document
        self._chance = chance
        self._operations = [
            (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]

    def __iter__(self) -> Iterator[Request]:
        """Yield requests without end, to each route in turn."""
        while True:
            for method, path, operation in self._operations:
                yield self._request(method, path, operation)

    def _request(self, method: str, path: str, operation: Mapping[str, Any]) -> Request:
        target, headers, query = path, [], []
        for parameter in operation.get("parameters", ()):
            place, name = parameter["in"], parameter["name"]
            if place == "path":
                target = target.replace(f"{{{name}}}", quote(self._name(), safe="/"))
                continue
            value = str(self._value(parameter.get("schema", {}), 0)).encode("utf-8", "replace").decode()
            if place == "query":
                query.append(f"{quote(name)}={quote(value)}")
            elif place == "header" and value.isprintable():
                headers.append((name, value))
        target += "?" + "&".join(query) if query and self._chance.random() < 0.7 else ""
        body = b""
        content = operation.get("requestBody", {}).get("content", {})
        if schema := content.get("application/json", {}).get("schema"):
            body = to_json(_brief(self._value(schema, 0)))
            if self._chance.random() < _CHANGED_SHARE:
                body = mutated_bytes(body, self._chance)
            headers += JSON
        return Request(f"{method} {path}", method, target, body, tuple(headers))

    def _name(self) -> str:
        return self._chance.choice(_NAMES)

    def _value(self, schema: Any, depth: int) -> Any:
        """Return a value for a JSON schema, or now and then one that does not fit."""
        if self._chance.random() < _HOSTILE_SHARE:
            return self._chance.choice(HOSTILE)
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return self._chance.choice(HOSTILE)
        if "$ref" in schema:
            return self._value(self._referred(schema["$ref"]), depth + 1)
        for several in ("anyOf", "oneOf", "allOf"):
            if schema.get(several):
                return self._value(self._chance.choice(schema[several]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        return self._of_type(schema, depth)

    def _referred(self, reference: str) -> Any:
        found: Any = self._document
        for name in reference.removeprefix("#/").split("/"):
            found = found[name]
        return found

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema.get("type", "string")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            length = self._chance.choice((0, 1, 1, 2, 3))
            return [self._value(schema.get("items", {}), depth + 1) for _ in range(length)]
        if kind == "integer":
            return self._chance.choice((0, 1, 2, schema.get("minimum", -1), schema.get("maximum", 7)))
        if kind == "number":
            return self._chance.choice((0, 0.5, 1, schema.get("minimum", -1), schema.get("maximum", 1.5)))
        if kind == "boolean":
            return self._chance.random() < 0.5
        return (
            None if kind == "null" else self._chance.choice(("", "Hello!", "nano", "get_weather", "{}", "é"))
        )

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        found = {
            name: self._value(each, depth + 1)
            for name, each in schema.get("properties", {}).items()
            if name in required or self._chance.random() > _LEFT_OUT_SHARE
        }
        if isinstance(more := schema.get("additionalProperties"), dict):
            found["a"] = self._value(more, depth + 1)
        return found


def _brief(body: Any) -> Any:
    """Return a body whose answer is short where it would be long by default."""
    if isinstance(body, dict):
        for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            body.setdefault(name, 3)
        if isinstance(options := body.setdefault("options", {}), dict):
            options.setdefault("num_predict", 3)
        body["model"] = "nano" if body.get("model") != "" else ""
    return body
