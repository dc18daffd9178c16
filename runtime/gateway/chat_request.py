"""The requests whose answers a gateway can go on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic_core import from_json

from ..http.strict_json import compact_json

_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True)
class Asked:
    """The body of a streamed chat completion of one choice, in which the model may call tools as it likes."""

    fields: Mapping[str, Any]
    body: bytes
    """As the client sent it."""

    @classmethod
    def read(cls, body: bytes) -> Self | None:
        """None for everything else, be it wrong or right: that is between the client and the engine."""
        try:
            fields = from_json(body)
        except ValueError:
            return None
        if (
            isinstance(fields, dict)
            and fields.get("stream") is True
            and fields.get("n") in (None, 1)
            and fields.get("tool_choice") in (None, "auto")
            and isinstance(fields.get("messages"), list)
            and isinstance(fields.get("tools"), list)
            and fields["tools"]
        ):
            return cls(fields, body)
        return None

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The functions among the tools."""
        return [
            tool
            for tool in self.fields["tools"]
            if isinstance(tool, dict)
            and isinstance(function := tool.get("function"), dict)
            and isinstance(function.get("name"), str)
            and isinstance(parameters := function.get("parameters") or {}, dict)
            and isinstance(parameters.get("properties") or {}, dict)
        ]

    @property
    def counts_usage(self) -> bool:
        """Whether the usage must be asked for though the client did not: its limit holds for all turns."""
        asks = self._stream_options().get("include_usage") is True
        return not asks and any(self._limit(name) is not None for name in _LIMITS)

    def first(self) -> bytes:
        """What the engine is asked: what the client sent, but for the usage where that must be counted."""
        return self._written({}) if self.counts_usage else self.body

    def behind(self, turns: Sequence[Mapping[str, Any]], tokens: int | None) -> bytes | None:
        """What the engine is asked next, behind ``turns``; None if no token would be left for it.

        Args:
            turns: What followed the client's messages: calls and their outputs.
            tokens: How many the answer has so far, if that is known.
        """
        changed: dict[str, Any] = {"messages": [*self.fields["messages"], *turns]}
        for name in _LIMITS:
            limit = self._limit(name)
            if limit is None:
                continue
            if tokens is None or limit <= tokens:
                return None
            changed[name] = limit - tokens
        return self._written(changed)

    def _stream_options(self) -> dict[str, Any]:
        options = self.fields.get("stream_options")
        return options if isinstance(options, dict) else {}

    def _limit(self, name: str) -> int | None:
        limit = self.fields.get(name)
        return limit if isinstance(limit, int) else None

    def _written(self, changed: Mapping[str, Any]) -> bytes:
        fields = {**self.fields, **changed}
        if self.counts_usage:
            fields["stream_options"] = {**self._stream_options(), "include_usage": True}
        return compact_json(fields).encode()
