"""Which call comes next: learned online from the calls that were really made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arguments import ARGUMENT_PRIOR, LEFT_OUT, UNSEEN, Parameter
from .history import Called, Event, Returned, Said
from .memory import Memory, call_digest
from .text import name_words, words
from .values import Values, key_of
from .weights import digest_of, softmax

_FILLED_TOOLS = 3
_BRANCHES = 6
_MAX_WORDS = 40
_MAX_CUES = 12

_TOOL_PRIOR = {
    "none@result": 0.3, "none@request": 0.3,
    "next offered": 0.8, "unlike": -0.3, "like1": 0.3, "like2": 0.6, "like3": 0.9, "likest": 0.7,
    "cover2@request": 0.5, "cover3@request": 1.0, "cover4@request": 1.8, "likest#0@result": 0.7,
    "fill0": -2.0, "fill1": -0.8, "fill2": 0.2, "fill3": 1.0, "fill4": 1.6,
    "same call": -2.0, "recalled call": 1.0,
}  # fmt: skip


PRIOR = {**_TOOL_PRIOR, **ARGUMENT_PRIOR}
"""What a few circumstances are worth before anything is learned."""


@dataclass(frozen=True, slots=True)
class PredictedCall:
    """A call and how likely it is the next one."""

    tool: str
    arguments: dict[str, Any]
    chance: float


@dataclass(frozen=True, slots=True)
class Tool:
    """What a schema says of a tool."""

    name: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]
    name_words: frozenset[str]
    words: frozenset[str]

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Tool | None:
        """Read a function tool in OpenAI's shape; None if it is none."""
        function = schema.get("function")
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return None
        parameters = function.get("parameters") or {}
        properties = parameters.get("properties") or {}
        name = function["name"]
        named = frozenset(name_words(name))
        return cls(
            name,
            {str(key): value if isinstance(value, Mapping) else {} for key, value in properties.items()},
            frozenset(map(str, parameters.get("required") or ())),
            named,
            named | frozenset(words(str(function.get("description") or "")[:300])),
        )


class Situation:
    """One point of a conversation, where a next call is guessed and then learned. Not thread-safe.

    Two choices, each a multinomial logistic regression learned online: which of the tools on offer (or
    none), and, parameter by parameter, which of the values in sight. What it goes by are circumstances: the
    last calls, the words of the request, the path of a field in an earlier result, how a value is named
    there and here, its shape, whether it was used before, which list item is next. A few that mean the
    same everywhere carry a prior, so that the first guess can be right.
    """

    def __init__(
        self,
        memory: Memory,
        history: Sequence[Event],
        schemas: Sequence[Mapping[str, Any]],
        runnable: Collection[str] | None = None,
    ) -> None:
        """Only calls of the ``runnable`` tools are guessed, if it is known which those are."""
        self._memory = memory
        self._weights = memory.weights
        self._history = history
        self._tools = [tool for schema in schemas if (tool := Tool.of(schema)) is not None]
        self._offered = {tool.name: number for number, tool in enumerate(self._tools)}
        self._runnable = runnable
        self._calls = [event for event in history if isinstance(event, Called)]
        self._values = Values(history, [year for year, _ in memory.years.most_common(2)])
        self._parameters: dict[tuple[str, str], Parameter] = {}
        last = history[-1] if history else None
        self._where = "request" if isinstance(last, Said) else "result"
        self._status = _status(last.value) if isinstance(last, Returned) else ""
        self._previous = self._calls[-1].tool if self._calls else "^"
        self._second = self._calls[-2].tool if len(self._calls) > 1 else "^"
        self._said = self._last_words()
        self._words = sorted(self._said)  # so that sums, and with them guesses, are the same in every process
        self._asked = self._said | self._values.request
        self._rarity = self._rarities()
        self._covers = {tool.name: self._cover(tool) for tool in self._tools}
        self._best_cover = max(self._covers.values(), default=0.0)
        self._cues = self._find_cues()
        self._recalled = memory.recall(self._cues)

    def predictions(self, *, most: int, least_chance: float) -> list[PredictedCall]:
        """The likeliest next calls that are at least so likely, best first."""
        options = self._options()
        chances = softmax([self._weights.score(features) for _, features in options])
        found = [
            PredictedCall(tool.name, arguments, chance * inner)
            for (tool, _), chance in zip(options, chances, strict=True)
            if tool is not None and chance >= least_chance and self._is_runnable(tool)
            for arguments, inner in self._argument_sets(tool)
            if chance * inner >= least_chance
        ]
        found.sort(key=lambda predicted: -predicted.chance)
        return found[:most]

    def learn(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Learn that these calls followed, which may be none."""
        made = [name for name, _ in calls]
        for name, arguments in calls:
            if name in self._offered:
                self._learn_arguments(self._tools[self._offered[name]], arguments)
        options = self._options()
        right = {
            index: made.count(tool.name) / len(made)
            for index, (tool, _) in enumerate(options)
            if tool is not None and tool.name in made
        }
        if not made:
            right = {len(options) - 1: 1.0}
        if right:
            self._weights.learn([features for _, features in options], right)
        for name, arguments in calls:
            self._memory.remember(name, arguments, self._cues)

    # Which tool.

    def _options(self) -> list[tuple[Tool | None, list[str]]]:
        plain: list[tuple[Tool | None, list[str]]] = []
        filled: list[tuple[float, Tool, list[str]]] = []
        for tool in self._tools:
            features = self._of_tool(tool)
            plain.append((tool, features))
            if self._is_runnable(tool):
                filled.append((self._weights.score(features), tool, features))
        filled.sort(key=lambda each: -each[0])
        for _, tool, features in filled[:_FILLED_TOOLS]:
            features += self._of_best_call(tool)
        return [*plain, (None, self._of_none())]

    def _of_none(self) -> list[str]:
        where, previous = self._where, self._previous
        since = 0
        for event in reversed(self._history):
            if isinstance(event, Said) and not event.by_model:
                break
            since += isinstance(event, Called)
        said = [
            "none", f"none@{where}", f"none@{where}<{previous}", f"none@{where}<{previous}<{self._second}",
            f"none@{self._status}", f"none@{self._status}<{previous}", f"none@{where}#{min(since, 4)}",
        ]  # fmt: skip
        return said + ([f"none: word {word}" for word in self._words] if where == "request" else [])

    def _of_tool(self, tool: Tool) -> list[str]:
        where, previous, name = self._where, self._previous, tool.name
        made = min(2, sum(call.tool == name for call in self._calls))
        said = [
            f"t>{name}", f"t@{where}>{name}", f"t@{where}<{previous}>{name}",
            f"t@{where}<{previous}<{self._second}>{name}", f"t@{self._status}<{previous}>{name}",
            f"made{made}@{where}", f"made{made}>{name}",
        ]  # fmt: skip
        if previous == name:
            said += [f"again@{where}", f"again@{self._status}"]
        if self._calls and not made:
            said.append("fresh")
        if previous in self._offered:
            offset = self._offered[name] - self._offered[previous]
            said.append("next offered" if offset == 1 else f"offset{max(-2, min(3, offset))}")
        elif not self._calls:
            said.append(f"offered{min(3, self._offered[name])}")
        shared = len(tool.words & self._said)
        cover = self._covers[name]
        said += [f"like{min(3, shared)}" if shared else "unlike", f"cover{_bucket(cover)}@{where}"]
        if cover and cover == self._best_cover:
            said += ["likest", f"likest@{where}", f"likest#{min(2, made)}@{where}"]
        if where == "request":
            said += [f"word {word}>{name}" for word in self._words]
        if not tool.parameters:
            said.append("takes nothing")
        return said

    def _rarities(self) -> dict[str, float]:
        """How much a word in a tool's name tells it from the others on offer."""
        counts = Counter(word for tool in self._tools for word in tool.name_words)
        return {word: math.log(1 + len(self._tools) / count) for word, count in counts.items()}

    def _cover(self, tool: Tool) -> float:
        """The share of what a tool's name tells that the request speaks of."""
        weight = sum(self._rarity[word] for word in tool.name_words)
        return sum(self._rarity[word] for word in tool.name_words & self._asked) / weight if weight else 0.0

    def _of_best_call(self, tool: Tool) -> list[str]:
        best = self._argument_sets(tool)[:1]
        chance = best[0][1] if best else 0.0
        fill, cover = _bucket(chance), _bucket(self._covers[tool.name])
        said = [f"fill{fill}", f"fill{fill}>{tool.name}", f"fill{fill} cover{cover}"]
        for arguments, _ in best:
            key = key_of(arguments)
            if any(call.tool == tool.name and key_of(call.arguments) == key for call in self._calls):
                said += ["same call", f"same call>{tool.name}"]
            if call_digest(tool.name, arguments) in self._recalled:
                said.append("recalled call")
        return said

    def _is_runnable(self, tool: Tool) -> bool:
        return self._runnable is None or tool.name in self._runnable

    def _find_cues(self) -> list[int]:
        """What an earlier conversation may have in common with this one: request, calls, last result."""
        cues = {call_digest(call.tool, call.arguments) for call in self._calls[-_MAX_CUES:] if call.arguments}
        said = next((event for event in self._history if isinstance(event, Said)), None)
        if said is not None:
            cues.add(digest_of(said.text))
        last = self._history[-1] if self._history else None
        if isinstance(last, Returned):
            cues.add(digest_of(f"{last.tool} returned {key_of(last.value)}"))
        return sorted(cues)

    def _last_words(self) -> frozenset[str]:
        for event in reversed(self._history):
            if isinstance(event, Said) and not event.by_model:
                return frozenset(words(event.text[:2000])[:_MAX_WORDS])
        return frozenset()

    # With which arguments.

    def _argument_sets(self, tool: Tool) -> list[tuple[dict[str, Any], float]]:
        """The likeliest argument sets of a tool, with their chances, best first."""
        partial: list[tuple[dict[str, Any], float, set[tuple[Any, ...]]]] = [({}, 1.0, set())]
        for name in tool.parameters:
            parameter = self._parameter(tool, name)
            options = parameter.options
            grown = []
            for arguments, chance, records in partial:
                for index, given_chance in parameter.chances(records)[:_BRANCHES]:
                    given, value = options.given[index], options.values[index]
                    if given is UNSEEN:
                        continue
                    more = {} if given is LEFT_OUT else {name: given}
                    beside = records | value.records if value is not None else records
                    grown.append(({**arguments, **more}, chance * given_chance, beside))
            grown.sort(key=lambda each: -each[1])
            partial = grown[:_BRANCHES]
        return [(arguments, chance) for arguments, chance, _ in partial]

    def _parameter(self, tool: Tool, name: str) -> Parameter:
        known = self._parameters.get((tool.name, name))
        if known is None:
            known = self._parameters[tool.name, name] = Parameter(
                name,
                tool.name,
                tool.parameters[name],
                required=name in tool.required,
                place=self._memory.place(tool.name, name),
                weights=self._weights,
                values=self._values,
                calls=self._calls,
                recalled=self._recalled,
            )
        return known

    def _learn_arguments(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        records: set[tuple[Any, ...]] = set()
        for name in tool.parameters:
            value = self._parameter(tool, name).learn(arguments.get(name, LEFT_OUT), records)
            if value is not None:
                records |= value.records


def _bucket(share: float) -> int:
    return sum(share > bound for bound in (0.03, 0.15, 0.4, 0.75))


def _status(value: Any) -> str:
    """What kind of result this is."""
    if isinstance(value, str):
        start = value[:80].lower()
        return "error" if "error" in start or "exception" in start or "fail" in start else "text"
    if isinstance(value, dict):
        return "error" if value.get("error") else "object" if value else "empty"
    return f"list{min(2, len(value))}"
