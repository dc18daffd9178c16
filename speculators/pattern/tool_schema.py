"""A function tool's schema as the pattern speculator reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .text import name_words, words


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """Name, parameters and words of a tool; ``words`` includes those of its description."""

    name: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]
    name_words: frozenset[str]
    words: frozenset[str]

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> ToolSchema | None:
        """Read a function tool in OpenAI's shape; return None for any other tool."""
        function = schema.get("function")
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return None
        parameters = function.get("parameters") or {}
        properties = parameters.get("properties") or {}
        name = function["name"]
        words_of_name = frozenset(name_words(name))
        return cls(
            name,
            {str(key): value if isinstance(value, Mapping) else {} for key, value in properties.items()},
            frozenset(map(str, parameters.get("required") or ())),
            words_of_name,
            words_of_name | frozenset(words(str(function.get("description") or "")[:300])),
        )
