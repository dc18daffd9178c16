"""The tool outputs that a client has submitted for one response (SpecTools §3.2: the cache ``C``)."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.calls import ToolCall, canonical_key
from agentrt.errors import InvalidRequestError

from .replies import Spelling


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """What one response may hold."""

    entries: int = 64
    entry_bytes: int = 256 * 2**10
    total_bytes: int = 2**20
    keep_alive_s: float = 300.0
    """How long an entry is good for if its client does not say."""
    most_keep_alive_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """One call and what it gave."""

    name: str
    arguments: Mapping[str, Any]
    output: str
    size: int
    """Bytes of the output and of the call's key."""
    expires: float
    spelling: Spelling | None = None
    """Both in the model's tokens."""


class ToolOutputs:
    """The cache of one response, looked up by call (O3) and by age (O2). Thread-safe.

    Two calls are the same if their arguments are, after defaults that the tool's JSON schema states have
    been filled in. The clock is :func:`time.monotonic` unless another one is given.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]] = (),
        limits: OutputLimits = OutputLimits(),
        clock: Callable[[], float] = time.monotonic,
        spell: Callable[[ToolCall, str], Spelling] | None = None,
        most_tokens: int | None = None,
    ) -> None:
        """``tools`` are the function definitions of the request; outputs of others are not taken.

        ``spell`` writes an entry in the model's tokens, here and not where they will be needed; replies of
        more than ``most_tokens`` are not taken.
        """
        self._spell = spell
        self._most_tokens = most_tokens
        self._defaults = {tool["function"]["name"]: _defaults(tool["function"]) for tool in tools}
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._by_key: OrderedDict[str, ToolOutput] = OrderedDict()  # the newest last
        self._bytes = 0
        self._closed = False

    def __len__(self) -> int:
        """How many entries are held, expired ones included."""
        return len(self._by_key)

    @property
    def held_bytes(self) -> int:
        """The size of all entries."""
        return self._bytes

    def put(
        self, name: str, arguments: Mapping[str, Any], output: str, keep_alive_s: float | None = None
    ) -> bool:
        """Keep ``output`` as that of a call; the same call's earlier one is replaced.

        ``keep_alive_s`` beyond the limit counts as the limit.

        Returns:
            False if it is not kept: no such tool, larger than an entry may be, no place left, or the
            response has ended.

        Raises:
            InvalidRequestError: ``keep_alive_s`` is no positive number, the arguments have no key, or the
                model's chat template has no turn of tools.
        """
        limits = self._limits
        if keep_alive_s is None:
            keep_alive_s = limits.keep_alive_s
        if not (math.isfinite(keep_alive_s) and keep_alive_s > 0):
            raise InvalidRequestError(
                "keep_alive", f"{keep_alive_s} is not a positive number of seconds. Use one, or leave it out."
            )
        if name not in self._defaults:
            return False
        key = self._key(name, arguments)
        size = len(output.encode("utf-8", "replace")) + len(key)
        if size > limits.entry_bytes:
            return False
        spelling = self._spell(ToolCall(name, arguments), output) if self._spell else None
        if spelling and self._most_tokens is not None and len(spelling.reply.tokens) > self._most_tokens:
            return False
        expires = self._clock() + min(keep_alive_s, limits.most_keep_alive_s)
        with self._lock:
            self._drop_expired()
            replaced = self._by_key.get(key)
            free = limits.total_bytes - self._bytes + (replaced.size if replaced else 0)
            if self._closed or size > free or (replaced is None and len(self._by_key) >= limits.entries):
                return False
            self._drop(key)
            self._by_key[key] = ToolOutput(name, arguments, output, size, expires, spelling)
            self._bytes += size
        return True

    def exact(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput | None:
        """The output of this very call, if it is there (Algorithm 5, line 21)."""
        if name not in self._defaults or not self._by_key:
            return None
        try:
            key = self._key(name, arguments)
        except InvalidRequestError:
            return None  # such a call was never put
        with self._lock:
            self._drop_expired()
            return self._by_key.get(key)

    def newest_first(self) -> list[ToolOutput]:
        """All entries, the one that was put last first (Algorithm 5, line 14, looks for the newest)."""
        with self._lock:
            self._drop_expired()
            return list(reversed(self._by_key.values()))

    def close(self) -> None:
        """Take nothing any more and forget everything: the response has ended."""
        with self._lock:
            self._closed = True
            self._by_key.clear()
            self._bytes = 0

    def _key(self, name: str, arguments: Mapping[str, Any]) -> str:
        return canonical_key(name, {**self._defaults[name], **arguments})

    def _drop_expired(self) -> None:
        now = self._clock()
        for key in [key for key, entry in self._by_key.items() if entry.expires <= now]:
            self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._by_key.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size


def _defaults(function: Mapping[str, Any]) -> dict[str, Any]:
    properties = (function.get("parameters") or {}).get("properties") or {}
    return {
        name: schema["default"]
        for name, schema in properties.items()
        if isinstance(schema, Mapping) and "default" in schema
    }
