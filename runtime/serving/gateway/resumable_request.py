"""Chat completion requests whose answers the gateway can continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic_core import to_json

from ..http.errors import ApiError
from ..http.strict_json import parse_body

_LIMITS = ("max_tokens", "max_completion_tokens")
_OF_ONE_PROMPT = ("continue_final_message", "ec_transfer_params", "kv_transfer_params", "mm_payload")
"""Fields of vLLM's that are about the prompt of one request, and wrong for that of the next turn."""


@dataclass(frozen=True)
class ResumableRequest:
    """A streamed chat completion with tools, one choice, and the choice of tools left to the model."""

    fields: Mapping[str, Any]
    body: bytes
    """The client's body, unchanged."""

    @classmethod
    def parse(cls, body: bytes) -> Self | None:
        """Return the request in ``body``; None if it is of another kind or invalid: the engine answers it."""
        try:
            fields = parse_body(body)
        except ApiError:
            return None
        if (
            isinstance(fields, dict)
            and fields.get("stream") is True
            and fields.get("n") in (None, 1)
            and fields.get("tool_choice") in (None, "auto")
            and isinstance(fields.get("messages"), list)
            and isinstance(fields.get("tools"), list)
            and fields["tools"]
            and fields.get("add_generation_prompt") in (None, True)
            and not any(fields.get(name) for name in _OF_ONE_PROMPT)
        ):
            return cls(fields, body)
        return None

    @property
    def model(self) -> Any:
        """The requested model."""
        return self.fields.get("model")

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The valid function definitions among the tools."""
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
    def adds_usage(self) -> bool:
        """Whether the gateway requests usage that the client did not: a token limit holds for all turns."""
        requested = self._stream_options().get("include_usage") is True
        return not requested and any(self._limit(name) is not None for name in _LIMITS)

    def first_body(self) -> bytes:
        """Return the body of the first turn: the client's, with usage requested where it must be counted."""
        return self._encode({}) if self.adds_usage else self.body

    def next_body(self, history: Sequence[Mapping[str, Any]], completion_tokens: int | None) -> bytes | None:
        """Return the body of the next turn; None if the token limit leaves no token for it.

        Args:
            history: The messages of the turns so far: calls and their outputs.
            completion_tokens: Tokens of the answer so far; None if the engine did not report them.
        """
        changes: dict[str, Any] = {"messages": [*self.fields["messages"], *history]}
        for name in _LIMITS:
            limit = self._limit(name)
            if limit is None:
                continue
            if completion_tokens is None or limit <= completion_tokens:
                return None
            changes[name] = limit - completion_tokens
        return self._encode(changes)

    def _stream_options(self) -> dict[str, Any]:
        options = self.fields.get("stream_options")
        return options if isinstance(options, dict) else {}

    def _limit(self, name: str) -> int | None:
        limit = self.fields.get(name)
        return limit if isinstance(limit, int) else None

    def _encode(self, changes: Mapping[str, Any]) -> bytes:
        fields = {**self.fields, **changes}
        if self.adds_usage:
            fields["stream_options"] = {**self._stream_options(), "include_usage": True}
        return to_json(fields)
