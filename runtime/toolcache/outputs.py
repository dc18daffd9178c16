"""The tool outputs that a client has submitted for one response (SpecTools §3.2: the cache ``C``)."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentrt.calls import ToolCall, canonical_key
from agentrt.errors import InvalidRequestError
from agentrt.finite import is_finite, shown

from .json_calls import json_texts
from .tool_turn import TokenizedCall


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """Limits of one response's cache."""

    entries: int = 64
    entry_bytes: int = 256 * 2**10
    total_bytes: int = 2**20
    predicted_calls: int = 16
    """Predicted calls without an output; the oldest gives way to the newest."""
    predicted_bytes: int = 16 * 2**10
    """Of the canonical key of a predicted call."""
    keep_alive_s: float = 300.0
    """How long an entry is kept if the client does not say."""
    max_keep_alive_s: float = 3600.0

    def seconds(self, keep_alive_s: float | None) -> float:
        """Return how long an entry is kept whose client says ``keep_alive_s``, or nothing."""
        return min(self.keep_alive_s if keep_alive_s is None else keep_alive_s, self.max_keep_alive_s)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """One call and its output."""

    name: str
    arguments: Mapping[str, Any]
    output: str
    size: int
    """Bytes of the output and of the call's canonical key."""
    expires: float
    """When the entry expires, on the cache's clock."""
    reusable: bool = True
    """Whether it answers any number of equal calls. If not, it is removed with the first."""
    tokenized: TokenizedCall | None = None
    """Call and output in the model's tokens."""


class ToolOutputs:
    """The tool cache of one response, looked up by call (O3) and by age (O2). Thread-safe.

    Beside outputs it has predicted calls, whose output is not known yet: they are drafted as those with an
    output are (O2), and never answered.

    Two calls are the same if their arguments are equal once defaults that the tool's JSON schema states have
    been filled in. The clock is :func:`time.monotonic` unless another one is given.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]] = (),
        limits: OutputLimits = OutputLimits(),
        clock: Callable[[], float] = time.monotonic,
        tokenize: Callable[[ToolCall, str], TokenizedCall] | None = None,
        max_reply_tokens: int | None = None,
        *,
        answers: bool = True,
        takes_predicted_calls: bool = False,
    ) -> None:
        """Create an empty cache.

        ``tools`` are the function definitions of the request; outputs of other tools are refused.
        ``tokenize`` turns an entry into the model's tokens, on the thread that calls :meth:`put` instead of
        the engine thread. Entries whose reply has more than ``max_reply_tokens`` are refused. ``answers`` is
        False for a request that must return a call: all outputs are refused. ``takes_predicted_calls`` says
        whether the engine drafts.
        """
        self._answers = answers
        self.takes_predicted_calls: Final = takes_predicted_calls and tokenize is not None and bool(tools)
        """Whether :meth:`predict` takes calls."""
        self._tokenize = tokenize
        self._max_reply_tokens = max_reply_tokens
        self.defaults = {tool["function"]["name"]: _defaults(tool["function"]) for tool in tools}
        """The tools, each with the defaults that its JSON schema states."""
        self._orders = {tool["function"]["name"]: tuple(_properties(tool["function"])) for tool in tools}
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._by_key: OrderedDict[str, ToolOutput] = OrderedDict()  # the newest last
        self._predicted: OrderedDict[str, TokenizedCall] = OrderedDict()  # the newest last
        self._bytes = 0
        self._closed = False

    def __len__(self) -> int:
        """Return the number of outputs, expired ones included."""
        return len(self._by_key)

    def put(
        self,
        name: str,
        arguments: Mapping[str, Any],
        output: str,
        keep_alive_s: float | None = None,
        *,
        reusable: bool = True,
    ) -> bool:
        """Store ``output`` as that of a call, replacing an earlier output of the same call.

        ``keep_alive_s`` above the limit is cut to the limit. A ``reusable`` output answers any number of
        equal calls in the response; another one answers one.

        Returns:
            False if it is not stored: the request has no such tool or must return a call, the entry is too
            large, the cache is full, or the response has ended.

        Raises:
            InvalidRequestError: ``keep_alive_s`` is not a positive number, the arguments have no canonical
                key, or the model's chat template has no tool turns.
        """
        limits = self._limits
        keep_alive_s = limits.keep_alive_s if keep_alive_s is None else keep_alive_s
        if not is_finite(keep_alive_s) or keep_alive_s <= 0:
            raise InvalidRequestError(
                "keep_alive",
                f"{shown(keep_alive_s)} is not a positive number of seconds. Use one, or leave it out.",
            )
        if name not in self.defaults or not self._answers:
            return False
        key = call_key(self.defaults[name], name, arguments)
        size = len(output.encode("utf-8", "replace")) + len(key)
        with self._lock:
            if size > limits.entry_bytes or not self._has_room(key, size):
                return False
        tokenized = self._tokenized(name, arguments, output)
        most = self._max_reply_tokens
        if tokenized and most is not None and len(tokenized.reply.tokens) > most:
            return False
        expires = self._clock() + limits.seconds(keep_alive_s)
        return self._store(key, ToolOutput(name, arguments, output, size, expires, reusable, tokenized))

    def predict(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Store a call that the model is expected to make. A later output of the call takes its place.

        Returns:
            False if it is not stored: nothing drafts predicted calls here, the request has no such tool, the
            call is too large, an output of it is stored, or the response has ended.

        Raises:
            InvalidRequestError: the arguments have no canonical key, or the model's chat template has no tool
                turns.
        """
        if not self.takes_predicted_calls or name not in self.defaults:
            return False
        key = call_key(self.defaults[name], name, arguments)
        if len(key) > self._limits.predicted_bytes:
            return False
        call = self._tokenized(name, arguments, "")
        with self._lock:
            if call is None or self._closed or key in self._by_key:
                return False
            self._predicted[key] = call
            self._predicted.move_to_end(key)
            while len(self._predicted) > self._limits.predicted_calls:
                self._predicted.popitem(last=False)
        return True

    def _tokenized(self, name: str, arguments: Mapping[str, Any], output: str) -> TokenizedCall | None:
        if self._tokenize is None:
            return None
        call = ToolCall(name, arguments)
        return self._tokenize(call, output)._replace(json_texts=json_texts(call, self._orders[name]))

    def _has_room(self, key: str, size: int) -> bool:
        """Whether an entry of ``size`` bytes can be stored. The lock is held."""
        self._drop_expired()
        replaced = self._by_key.get(key)
        free = self._limits.total_bytes - self._bytes + (replaced.size if replaced else 0)
        full = size > free or (replaced is None and len(self._by_key) >= self._limits.entries)
        return not (self._closed or full)

    def _store(self, key: str, entry: ToolOutput) -> bool:
        with self._lock:
            if not self._has_room(key, entry.size):  # it had, but others were stored meanwhile
                return False
            self._drop(key)
            self._predicted.pop(key, None)
            self._by_key[key] = entry
            self._bytes += entry.size
        return True

    def get(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput | None:
        """Return the entry of this call, or None (Algorithm 5, line 21)."""
        if name not in self.defaults or not self._by_key:
            return None
        try:
            key = call_key(self.defaults[name], name, arguments)
        except InvalidRequestError:
            return None  # a call without a key cannot have been stored
        with self._lock:
            self._drop_expired()
            return self._by_key.get(key)

    def find(self, calls: Sequence[ToolCall]) -> list[ToolOutput]:
        """Return the entries of all these calls; none if one has no entry of its own.

        An entry that is not reusable is that of one call only. Follow with :meth:`use` once the calls are
        answered.
        """
        found: list[ToolOutput] = []
        for call in calls:
            entry = self.get(call.name, call.arguments)
            if entry is None or (not entry.reusable and any(entry is other for other in found)):
                return []
            found.append(entry)
        return found

    def use(self, entries: Sequence[ToolOutput]) -> None:
        """Remove those of these entries that are not reusable: their calls have been answered."""
        with self._lock:
            for key in [key for key, entry in self._by_key.items() if any(entry is used for used in entries)]:
                if not self._by_key[key].reusable:
                    self._drop(key)

    def calls(self) -> tuple[list[TokenizedCall], list[TokenizedCall]]:
        """Return calls with an output, and predicted ones, each the newest first (Algorithm 5, line 14)."""
        with self._lock:
            self._drop_expired()
            stored = [entry.tokenized for entry in reversed(self._by_key.values()) if entry.tokenized]
            return stored, list(reversed(self._predicted.values()))

    def close(self) -> None:
        """Remove all entries and refuse new ones: the response has ended."""
        with self._lock:
            self._closed = True
            self._by_key.clear()
            self._predicted.clear()
            self._bytes = 0

    def _drop_expired(self) -> None:
        now = self._clock()
        for key in [key for key, entry in self._by_key.items() if entry.expires <= now]:
            self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._by_key.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size


def call_key(defaults: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> str:
    """Return what all equal calls of a tool have in common; ``defaults`` are those of its JSON schema.

    Raises:
        InvalidRequestError: the arguments have no canonical key.
    """
    return canonical_key(name, {**defaults, **arguments})


def _defaults(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a function definition that have a default, and their defaults."""
    return {
        name: schema["default"]
        for name, schema in _properties(function).items()
        if isinstance(schema, Mapping) and "default" in schema
    }


def _properties(function: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a function definition, with their schemas."""
    return (function.get("parameters") or {}).get("properties") or {}
