"""The features by which the next tool is predicted: the conversation so far, compared with each tool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .events import CallEvent, Event, MessageEvent, ResultEvent
from .memory import call_digest
from .text import name_words, words
from .values import key_of
from .weights import digest_of

_MAX_WORDS = 40
_MAX_CUES = 12

TOOL_PRIOR = {
    "none@result": 0.3, "none@request": 0.3,
    "next offered": 0.8, "unlike": -0.3, "like1": 0.3, "like2": 0.6, "like3": 0.9, "likest": 0.7,
    "cover2@request": 0.5, "cover3@request": 1.0, "cover4@request": 1.8, "likest#0@result": 0.7,
    "fill0": -2.0, "fill1": -0.8, "fill2": 0.2, "fill3": 1.0, "fill4": 1.6,
    "same call": -2.0, "recalled call": 1.0,
}  # fmt: skip
"""Initial weights of features. The names are part of the store's format: it holds their digests."""


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


class ToolFeatures:
    """Features of the tools on offer, and of no call, at one point of a conversation."""

    def __init__(
        self, history: Sequence[Event], tools: Sequence[ToolSchema], request: frozenset[str]
    ) -> None:
        """``request`` are the words of the user's first and last message."""
        self._history = history
        self._calls = [event for event in history if isinstance(event, CallEvent)]
        self._positions = {tool.name: number for number, tool in enumerate(tools)}
        last = history[-1] if history else None
        self._where = "request" if isinstance(last, MessageEvent) else "result"
        self._status = _status(last.value) if isinstance(last, ResultEvent) else ""
        self._previous = self._calls[-1].tool if self._calls else "^"
        self._second = self._calls[-2].tool if len(self._calls) > 1 else "^"
        self._words = self._last_words()
        # Sorted, so that sums, and with them predictions, are the same in every process.
        self._sorted_words = sorted(self._words)
        counts = Counter(word for tool in tools for word in tool.name_words)
        self._rarity = {word: math.log(1 + len(tools) / count) for word, count in counts.items()}
        self._covers = {tool.name: self._cover(tool, self._words | request) for tool in tools}
        self._best_cover = max(self._covers.values(), default=0.0)

    def cues(self) -> list[int]:
        """Return digests of what an earlier conversation may share with this: request, calls, last result."""
        cues = {call_digest(call.tool, call.arguments) for call in self._calls[-_MAX_CUES:] if call.arguments}
        first = next((event for event in self._history if isinstance(event, MessageEvent)), None)
        if first is not None:
            cues.add(digest_of(first.text))
        last = self._history[-1] if self._history else None
        if isinstance(last, ResultEvent):
            cues.add(digest_of(f"{last.tool} returned {key_of(last.value)}"))
        return sorted(cues)

    def of_none(self) -> list[str]:
        """Return the features of no call."""
        where, previous = self._where, self._previous
        since = 0
        for event in reversed(self._history):
            if isinstance(event, MessageEvent) and not event.by_model:
                break
            since += isinstance(event, CallEvent)
        features = [
            "none", f"none@{where}", f"none@{where}<{previous}", f"none@{where}<{previous}<{self._second}",
            f"none@{self._status}", f"none@{self._status}<{previous}", f"none@{where}#{min(since, 4)}",
        ]  # fmt: skip
        if where == "request":
            features += [f"none: word {word}" for word in self._sorted_words]
        return features

    def of_tool(self, tool: ToolSchema) -> list[str]:
        """Return the features of a call of a tool, whatever its arguments."""
        where, previous, name = self._where, self._previous, tool.name
        made = min(2, sum(call.tool == name for call in self._calls))
        features = [
            f"t>{name}", f"t@{where}>{name}", f"t@{where}<{previous}>{name}",
            f"t@{where}<{previous}<{self._second}>{name}", f"t@{self._status}<{previous}>{name}",
            f"made{made}@{where}", f"made{made}>{name}",
        ]  # fmt: skip
        if previous == name:
            features += [f"again@{where}", f"again@{self._status}"]
        if self._calls and not made:
            features.append("fresh")
        if previous in self._positions:
            offset = self._positions[name] - self._positions[previous]
            features.append("next offered" if offset == 1 else f"offset{max(-2, min(3, offset))}")
        elif not self._calls:
            features.append(f"offered{min(3, self._positions[name])}")
        features += self._of_words(tool, made)
        if where == "request":
            features += [f"word {word}>{name}" for word in self._sorted_words]
        if not tool.parameters:
            features.append("takes nothing")
        return features

    def _of_words(self, tool: ToolSchema, made: int) -> list[str]:
        shared = len(tool.words & self._words)
        cover = self._covers[tool.name]
        features = [f"like{min(3, shared)}" if shared else "unlike", f"cover{_bucket(cover)}@{self._where}"]
        if cover and cover == self._best_cover:
            features += ["likest", f"likest@{self._where}", f"likest#{min(2, made)}@{self._where}"]
        return features

    def of_best_call(
        self, tool: ToolSchema, arguments: dict[str, Any] | None, probability: float
    ) -> list[str]:
        """Return the features of a tool's likeliest ``arguments``; None if there are none."""
        fill, cover = _bucket(probability), _bucket(self._covers[tool.name])
        features = [f"fill{fill}", f"fill{fill}>{tool.name}", f"fill{fill} cover{cover}"]
        if arguments is not None:
            key = key_of(arguments)
            if any(call.tool == tool.name and key_of(call.arguments) == key for call in self._calls):
                features += ["same call", f"same call>{tool.name}"]
        return features

    def _cover(self, tool: ToolSchema, request: frozenset[str]) -> float:
        """Return the share of a tool's name, by rarity of its words, that is in ``request``."""
        # fsum, because the order in a set differs from process to process, and with it what sum rounds to.
        weight = math.fsum(self._rarity[word] for word in tool.name_words)
        covered = math.fsum(self._rarity[word] for word in tool.name_words & request)
        return covered / weight if weight else 0.0

    def _last_words(self) -> frozenset[str]:
        for event in reversed(self._history):
            if isinstance(event, MessageEvent) and not event.by_model:
                return frozenset(words(event.text[:2000])[:_MAX_WORDS])
        return frozenset()


def _bucket(share: float) -> int:
    return sum(share > bound for bound in (0.03, 0.15, 0.4, 0.75))


def _status(value: Any) -> str:
    """Return the kind of a result: error, text, object, empty, or a list with its length up to 2."""
    if isinstance(value, str):
        start = value[:80].lower()
        return "error" if "error" in start or "exception" in start or "fail" in start else "text"
    if isinstance(value, dict):
        return "error" if value.get("error") else "object" if value else "empty"
    return f"list{min(2, len(value))}"
