"""Which call comes next: predicted from, and learned from, the calls that were really made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .argument import ARGUMENT_PRIOR, LEFT_OUT, UNSEEN, ArgumentModel, Record
from .events import CallEvent, Event
from .memory import PatternMemory, call_digest
from .tool_features import TOOL_PRIOR, ToolFeatures, ToolSchema
from .values import Values
from .weights import softmax

_FILLED_TOOLS = 3
_BRANCHES = 6
_MIN_FIRST_CALL = 0.3  # of a tool that was never called, whose probability nothing has yet corrected

PRIOR = {**TOOL_PRIOR, **ARGUMENT_PRIOR}
"""Initial weights of a few features that mean the same in every conversation."""


@dataclass(frozen=True, slots=True)
class PredictedCall:
    """A call and the probability that it is the next one."""

    tool: str
    arguments: dict[str, Any]
    probability: float


class NextCallModel:
    """Predicts, and then learns, the next call at one point of a conversation. Not thread-safe.

    It makes two choices, each by a multinomial logistic regression learned online: which of the tools on
    offer is called, if any, and, parameter by parameter, which of the values found in the conversation is
    the argument. Features are the last calls, the words of the request, the path of a field in an earlier
    result, how a value and a parameter are named, the value's shape, whether it was used before, and which
    list item is next. Some have a prior weight, so that the first prediction can be right.
    """

    def __init__(
        self,
        memory: PatternMemory,
        history: Sequence[Event],
        schemas: Sequence[Mapping[str, Any]],
        speculable: Collection[str] | None = None,
    ) -> None:
        """Only calls of ``speculable`` tools are predicted; None if these are not known."""
        self._memory = memory
        self._weights = memory.weights
        tools = [tool for schema in schemas if (tool := ToolSchema.of(schema)) is not None]
        self._tools = tools
        self._by_name = {tool.name: tool for tool in tools}
        self._speculable = speculable
        self._calls = [event for event in history if isinstance(event, CallEvent)]
        self._values = Values(history, [year for year, _ in memory.years.most_common(2)])
        self._arguments: dict[tuple[str, str], ArgumentModel] = {}
        self._features = ToolFeatures(history, tools, self._values.request)
        self._cues = self._features.cues()
        self._recalled = memory.recall(self._cues)

    def predictions(self, *, max_drafts: int, min_probability: float) -> list[PredictedCall]:
        """Return the likeliest next calls of at least ``min_probability``, best first.

        A call of a tool that was never called must have a probability of 0.3 at least.
        """
        classes = self._classes()
        probabilities = softmax([self._weights.score(features) for _, features in classes])
        found: list[PredictedCall] = []
        for (tool, _), probability in zip(classes, probabilities, strict=True):
            if tool is None or not self._is_speculable(tool):
                continue
            least = min_probability if self._was_called(tool) else max(min_probability, _MIN_FIRST_CALL)
            if probability >= least:
                found += [
                    PredictedCall(tool.name, arguments, probability * inner)
                    for arguments, inner in self._argument_sets(tool)
                    if probability * inner >= least
                ]
        found.sort(key=lambda predicted: -predicted.probability)
        return found[:max_drafts]

    def learn(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Learn that these calls, (tool, arguments), followed; an empty list if none did."""
        made = [name for name, _ in calls]
        places = [
            self._learn_arguments(self._by_name[name], arguments) if name in self._by_name else {}
            for name, arguments in calls
        ]
        classes = self._classes()
        targets = {
            index: made.count(tool.name) / len(made)
            for index, (tool, _) in enumerate(classes)
            if tool is not None and tool.name in made
        }
        if not made:
            targets = {len(classes) - 1: 1.0}
        if targets:
            self._weights.learn([features for _, features in classes], targets)
        for (name, arguments), found in zip(calls, places, strict=True):
            self._memory.count(name, arguments, self._cues, found)

    def _classes(self) -> list[tuple[ToolSchema | None, list[str]]]:
        """Return the tools on offer, and None for no call, with their features.

        The likeliest tools also have features of their likeliest arguments.
        """
        classes: list[tuple[ToolSchema | None, list[str]]] = []
        scored: list[tuple[float, ToolSchema, list[str]]] = []
        for tool in self._tools:
            features = self._features.of_tool(tool)
            classes.append((tool, features))
            if self._is_speculable(tool):
                scored.append((self._weights.score(features), tool, features))
        scored.sort(key=lambda each: -each[0])
        for _, tool, features in scored[:_FILLED_TOOLS]:
            features += self._of_best_call(tool)
        return [*classes, (None, self._features.of_none())]

    def _of_best_call(self, tool: ToolSchema) -> list[str]:
        best = self._argument_sets(tool)[:1]
        if not best:
            return self._features.of_best_call(tool, None, 0.0)
        arguments, probability = best[0]
        features = self._features.of_best_call(tool, arguments, probability)
        if call_digest(tool.name, arguments) in self._recalled:
            features.append("recalled call")
        return features

    def _is_speculable(self, tool: ToolSchema) -> bool:
        return self._speculable is None or tool.name in self._speculable

    def _was_called(self, tool: ToolSchema) -> bool:
        called = any(call.tool == tool.name for call in self._calls)
        return called or self._memory.has_called(tool.name, tool.parameters)

    def _argument_sets(self, tool: ToolSchema) -> list[tuple[dict[str, Any], float]]:
        """Return the likeliest arguments of a tool with their probabilities, best first (beam search)."""
        beam: list[tuple[dict[str, Any], float, set[Record]]] = [({}, 1.0, set())]
        for name in tool.parameters:
            model = self._argument_model(tool, name)
            candidates = model.candidates
            grown = []
            for arguments, probability, records in beam:
                for index, inner in model.probabilities(records)[:_BRANCHES]:
                    argument, value = candidates.arguments[index], candidates.values[index]
                    if argument is UNSEEN:
                        continue
                    more = {} if argument is LEFT_OUT else {name: argument}
                    beside = records | value.records if value is not None else records
                    grown.append(({**arguments, **more}, probability * inner, beside))
            grown.sort(key=lambda each: -each[1])
            beam = grown[:_BRANCHES]
        return [(arguments, probability) for arguments, probability, _ in beam]

    def _argument_model(self, tool: ToolSchema, name: str) -> ArgumentModel:
        known = self._arguments.get((tool.name, name))
        if known is None:
            known = self._arguments[tool.name, name] = ArgumentModel(
                name,
                tool.name,
                tool.parameters[name],
                required=name in tool.required,
                stats=self._memory.parameter(tool.name, name),
                weights=self._weights,
                values=self._values,
                calls=self._calls,
                recalled=self._recalled,
            )
        return known

    def _learn_arguments(self, tool: ToolSchema, arguments: Mapping[str, Any]) -> dict[str, list[str]]:
        """Learn the arguments of a call; return the places that each was found in."""
        records: set[Record] = set()
        places: dict[str, list[str]] = {}
        for name in tool.parameters:
            value = self._argument_model(tool, name).learn(arguments.get(name, LEFT_OUT), records)
            if value is not None:
                records |= value.records
                places[name] = [source.place for source in value.sources]
        return places
