"""Which value an argument takes: the candidates found in the conversation, weighted by their features."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .events import CallEvent
from .memory import ParameterStats, argument_digest
from .text import name_words, shape
from .values import Source, Value, Values, coerced, key_of
from .weights import Weights, digest_of

_MAX_CONSTANTS = 12
_CONSIDERED = 16
_VAGUE = frozenset(name_words("id_name_number_code_key_value_text_type"))
Record = tuple[Any, ...]

ARGUMENT_PRIOR = {
    "unseen": 2.0, "left out": 2.0, "in enum": 0.5,
    "named=": 3.0, "named~": 1.5, "before=": 3.0, "before~": 1.0,
    "shape=": 1.0, "shape!": -0.7, "shape= strictly": 2.0, "shape! strictly": -4.0, "recalled": 2.0,
    "result:age0": 0.7, "result:age1": 0.5, "argument:age1": 0.5, "reply": -1.0,
    "request": -0.5, "request:new": 0.6, "request:ends a clause": 0.3, "quoted": 2.5,
    "request:capitals": 0.8, "request:part of capitals": -1.0, "request:digits": 0.5, "request:alone": 1.0,
    "constant often": 1.5, "used here": -0.5, "next in list": 1.0, "first in list": 0.5,
    "result:likest": 1.5, "result:told3": 0.7, "result:told4": 1.5, "beside": 1.5,
}  # fmt: skip
"""Initial weights of features. The names are part of the store's format: it holds their digests."""


class _NoValue:
    """A candidate that is not a value."""

    def __init__(self, name: str) -> None:
        self.name = name


UNSEEN = _NoValue("unseen")
"""The argument is a value that is not among the candidates."""
LEFT_OUT = _NoValue("left out")
"""The call has no such argument."""


@dataclass(slots=True)
class Candidates:
    """What an argument can be, in parallel lists.

    ``arguments`` are the candidates, ``values`` where each was found (None for constants and enum members),
    ``features`` and ``scores`` what speaks for each.
    """

    arguments: list[Any] = field(default_factory=list)
    values: list[Value | None] = field(default_factory=list)
    features: list[list[str]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class ArgumentModel:
    """Predicts and learns the argument of one parameter at one point of a conversation.

    Each feature is used alone, crossed with the parameter's name, and crossed with the parameter of this very
    tool, so that what is learned of one tool helps with the next.
    """

    def __init__(
        self,
        name: str,
        tool: str,
        schema: Mapping[str, Any],
        *,
        required: bool,
        stats: ParameterStats,
        weights: Weights,
        values: Values,
        calls: Sequence[CallEvent],
        recalled: Collection[int],
    ) -> None:
        """Score all candidates.

        ``schema`` is the parameter's JSON schema; ``calls`` are those of the conversation; ``recalled`` are
        digests of arguments that followed in similar conversations.
        """
        self.name = name
        self._tool = tool
        self._recalled = recalled
        self._weights = weights
        self._weight: dict[str, float] = {}
        self._stats = stats
        self._words = frozenset(name_words(name))
        self._telling = self._words - _VAGUE or self._words
        self._used = [
            key_of(call.arguments[name])
            for call in calls
            if call.tool == tool and call.arguments is not None and name in call.arguments
        ]
        self._last_in_list = self._last_positions(values)
        self.candidates = Candidates()
        self._add_candidates(values, schema, required)
        scores = self.candidates.scores
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        highest = scores[order[0]]
        powers = [(index, math.exp(scores[index] - highest)) for index in order]
        found = [each for each in powers if self._is_from_known_place(each[0])]
        self._likeliest = found[:_CONSIDERED]
        self._others = max(
            0.0, sum(power for _, power in powers) - sum(power for _, power in self._likeliest)
        )

    def probabilities(self, chosen: set[Record]) -> list[tuple[int, float]]:
        """Return (index, probability) of the likeliest candidates, best first.

        ``chosen`` are the records that the call's other arguments were found in.
        """
        powers = [
            (power * math.exp(self._beside_weight(index, chosen)) if chosen else power, index)
            for index, power in self._likeliest
        ]
        total = sum(power for power, _ in powers) + self._others
        powers.sort(reverse=True)
        return [(index, power / total) for power, index in powers]

    def learn(self, argument: Any, chosen: set[Record]) -> Value | None:
        """Learn the real call's ``argument``, or ``LEFT_OUT``; return the value that it was copied from."""
        correct = self._index_of(argument)
        features = [
            self._crossed(own + self._beside(index, chosen))
            for index, own in enumerate(self.candidates.features)
        ]
        self._weights.learn(features, {correct: 1.0})
        return self.candidates.values[correct]

    def _is_from_known_place(self, index: int) -> bool:
        """Whether a candidate was found where arguments of this parameter come from, if that is known."""
        value, places = self.candidates.values[index], self._stats.places
        return value is None or not places or any(source.place in places for source in value.sources)

    def _last_positions(self, values: Values) -> dict[tuple[Any, str], int]:
        """Return the last position used of each list that arguments of earlier calls were copied from."""
        last: dict[tuple[Any, str], int] = {}
        for key in self._used:
            known = values.by_key.get(key)
            for source in known.sources if known is not None else ():
                if source.position is not None:
                    where = (source.record[0], source.path)
                    last[where] = max(last.get(where, -1), source.position)
        return last

    def _add_candidates(self, values: Values, schema: Mapping[str, Any], required: bool) -> None:
        enum = schema.get("enum")
        allowed = {key_of(each) for each in enum} if isinstance(enum, list) and enum else None
        stated = schema.get("type")
        wanted = stated if isinstance(stated, str) else self._usual_type()
        seen: set[str] = set()
        for value in values.by_key.values():
            argument = coerced(value.value, wanted)
            if argument is None:
                continue
            key = value.key if argument is value.value else key_of(argument)
            if key not in seen and (allowed is None or key in allowed):
                seen.add(key)
                self._add(argument, value, value.features + self._features_of(value, key, argument))
        for key, _ in self._stats.constants.most_common(_MAX_CONSTANTS):
            if key not in seen and (allowed is None or key in allowed):
                seen.add(key)
                self._add(json.loads(key), None, ["constant", *self._features_of_known(key)])
        for each in enum if allowed is not None and isinstance(enum, list) else ():
            if key_of(each) not in seen:
                self._add(each, None, ["in enum", f"= {digest_of(key_of(each))}"])
        if not required:
            self._add(LEFT_OUT, None, ["left out"])
        self._add(UNSEEN, None, ["unseen"])

    def _add(self, argument: Any, value: Value | None, features: list[str]) -> None:
        self.candidates.arguments.append(argument)
        self.candidates.values.append(value)
        self.candidates.features.append(features)
        self.candidates.scores.append(sum(map(self._weigh, features)))

    def _weigh(self, feature: str) -> float:
        known = self._weight.get(feature)
        if known is None:
            known = self._weight[feature] = self._weights.score(self._crossed((feature,)))
        return known

    def _crossed(self, features: Sequence[str]) -> list[str]:
        crossed: list[str] = []
        for each in features:
            crossed += (each, f"{each}>{self.name}", f"{each}>{self._tool}.{self.name}")
        return crossed

    def _features_of(self, value: Value, key: str, argument: Any) -> list[str]:
        """Return the features of a value as a candidate for this parameter."""
        features = [each for source in value.sources for each in self._features_of_source(source)]
        features += self._features_of_shape(shape(argument if isinstance(argument, str) else key))
        if self._recalled and argument_digest(self._tool, self.name, key) in self._recalled:
            features.append("recalled")
        if key in self._used:
            features.append("used here")
            if key == self._used[-1]:
                features.append("last used here")
        elif self._used:
            features.append("not used here")
        if len(value.sources) > 1:
            features.append(f"in {len(value.sources)} places")
        features += self._features_of_known(key)
        return list(dict.fromkeys(features))

    def _features_of_source(self, source: Source) -> list[str]:
        features = [self._naming(source)]
        if source.before:
            before = frozenset(stem for word in source.before for stem in name_words(word))
            if self._telling <= before:
                features.append("before=")
            elif not self._telling.isdisjoint(before):
                features.append("before~")
        if source.position is not None:
            last = self._last_in_list.get((source.record[0], source.path))
            if last is None:
                features.append("first in list" if source.position == 0 else "later in list")
            else:
                features.append("next in list" if source.position == last + 1 else "elsewhere in list")
        return features

    def _features_of_shape(self, form: str) -> list[str]:
        features = [f"shape {form}"]
        shapes = self._stats.shapes
        if shapes:
            # Identifiers have few shapes; the shape of free text says little.
            strict = 3 * len(shapes) <= shapes.total()
            features.append(("shape=" if form in shapes else "shape!") + (" strictly" if strict else ""))
        return features

    def _features_of_known(self, key: str) -> list[str]:
        digest = digest_of(key)
        count = self._stats.seen.get(digest, 0)
        if not count:
            return []
        often = count > 1 and count > 0.3 * self._stats.seen.total()
        return ["known", f"= {digest}", "constant often"] if often else ["known", f"= {digest}"]

    def _naming(self, source: Source) -> str:
        """Compare the value's name where it was found with the parameter's name."""
        name = frozenset(source.name)
        if not name:
            return f"unnamed {source.kind}"
        if name == self._words:
            return "named="
        if not (self._telling - _VAGUE).isdisjoint(name):
            return "named~"
        return "named otherwise"

    def _beside(self, index: int, chosen: set[Record]) -> list[str]:
        value = self.candidates.values[index]
        if not chosen or value is None:
            return []
        return ["beside"] if not chosen.isdisjoint(value.records) else ["apart"]

    def _beside_weight(self, index: int, chosen: set[Record]) -> float:
        return sum(map(self._weigh, self._beside(index, chosen)))

    def _index_of(self, argument: Any) -> int:
        """Return the index of the candidate equal to an argument; that of ``UNSEEN`` if there is none."""
        arguments = self.candidates.arguments
        if argument is not LEFT_OUT:
            key = key_of(argument)
            for index, each in enumerate(arguments):
                if not isinstance(each, _NoValue) and key_of(each) == key:
                    return index
        elif LEFT_OUT in arguments:
            return arguments.index(LEFT_OUT)
        return len(arguments) - 1

    def _usual_type(self) -> str:
        return self._stats.types.most_common(1)[0][0] if self._stats.types else "string"
