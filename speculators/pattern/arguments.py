"""Which value an argument takes: the values in sight, weighed by how they came to be there."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .history import Called
from .memory import Place, argument_digest
from .text import name_words, shape
from .values import Source, Value, Values, coerced, key_of
from .weights import Weights, digest_of

_MAX_CONSTANTS = 12
_CONSIDERED = 16
_VAGUE = frozenset(name_words("id_name_number_code_key_value_text_type"))

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


class _Choice:
    """What may stand for an argument besides a value."""

    def __init__(self, name: str) -> None:
        self.name = name


UNSEEN = _Choice("unseen")
LEFT_OUT = _Choice("left out")


@dataclass(slots=True)
class Options:
    """What an argument may be, and the circumstances that speak for or against each."""

    given: list[Any] = field(default_factory=list)
    values: list[Value | None] = field(default_factory=list)
    circumstances: list[list[str]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


class Parameter:
    """A parameter of a tool at one point of a conversation.

    Each circumstance weighs alone, with the parameter's name, and with the parameter of this very tool, so
    that what is learned of one tool helps with the next.
    """

    def __init__(
        self,
        name: str,
        tool: str,
        schema: Mapping[str, Any],
        *,
        required: bool,
        place: Place,
        weights: Weights,
        values: Values,
        calls: Sequence[Called],
        recalled: Collection[int],
    ) -> None:
        """Weigh all values in sight; ``recalled`` are the digests of what came later in similar ones."""
        self._tool = tool
        self._recalled = recalled
        self.name = name
        self._at = f"{tool}.{name}"
        self._weights = weights
        self._weight: dict[str, float] = {}
        self._place = place
        self._words = frozenset(name_words(name))
        self._telling = self._words - _VAGUE or self._words
        self._used = [
            key_of(call.arguments[name])
            for call in calls
            if call.tool == tool and call.arguments is not None and name in call.arguments
        ]
        self._last_in_list: dict[tuple[Any, ...], int] = {}
        for key in self._used:
            known = values.by_key.get(key)
            for source in known.sources if known is not None else ():
                if source.place is not None:
                    where = (source.record[0], source.path)
                    self._last_in_list[where] = max(self._last_in_list.get(where, -1), source.place)
        self.options = Options()
        self._offer_all(values, schema, required)
        scores = self.options.scores
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        highest = scores[order[0]]
        powers = [math.exp(scores[index] - highest) for index in order]
        self._likeliest = list(zip(order[:_CONSIDERED], powers, strict=False))
        self._others = sum(powers[_CONSIDERED:])

    def chances(self, chosen: set[tuple[Any, ...]]) -> list[tuple[int, float]]:
        """The likeliest options with their chances, best first, beside values of the ``chosen`` records."""
        powers = [
            (power * math.exp(self._beside_weight(index, chosen)) if chosen else power, index)
            for index, power in self._likeliest
        ]
        total = sum(power for power, _ in powers) + self._others
        powers.sort(reverse=True)
        return [(index, power / total) for power, index in powers]

    def learn(self, given: Any, chosen: set[tuple[Any, ...]]) -> Value | None:
        """Learn that the argument was ``given``, or left out; return the value in sight that it was."""
        options = self.options
        right = self._index_of(given)
        features = [
            self._crossed(own + self._beside(index, chosen))
            for index, own in enumerate(options.circumstances)
        ]
        self._weights.learn(features, {right: 1.0})
        return options.values[right]

    def _offer_all(self, values: Values, schema: Mapping[str, Any], required: bool) -> None:
        enum = schema.get("enum")
        allowed = {key_of(each) for each in enum} if isinstance(enum, list) and enum else None
        stated = schema.get("type")
        wanted = stated if isinstance(stated, str) else self._usual_type()
        seen: set[str] = set()
        for value in values.by_key.values():
            given = coerced(value.value, wanted)
            if given is None:
                continue
            key = value.key if given is value.value else key_of(given)
            if key not in seen and (allowed is None or key in allowed):
                seen.add(key)
                self._offer(given, value, value.circumstances + self._of_value(value, key, given))
        for key, _ in self._place.constants.most_common(_MAX_CONSTANTS):
            if key not in seen and (allowed is None or key in allowed):
                seen.add(key)
                self._offer(json.loads(key), None, ["constant", *self._of_constant(key)])
        for each in enum if allowed is not None and isinstance(enum, list) else ():
            if key_of(each) not in seen:
                self._offer(each, None, ["in enum", f"= {digest_of(key_of(each))}"])
        if not required:
            self._offer(LEFT_OUT, None, ["left out"])
        self._offer(UNSEEN, None, ["unseen"])

    def _offer(self, given: Any, value: Value | None, circumstances: list[str]) -> None:
        self.options.given.append(given)
        self.options.values.append(value)
        self.options.circumstances.append(circumstances)
        self.options.scores.append(sum(map(self._weigh, circumstances)))

    def _weigh(self, circumstance: str) -> float:
        known = self._weight.get(circumstance)
        if known is None:
            known = self._weight[circumstance] = self._weights.score(self._crossed((circumstance,)))
        return known

    def _crossed(self, circumstances: Sequence[str]) -> list[str]:
        features: list[str] = []
        for each in circumstances:
            features += (each, f"{each}>{self.name}", f"{each}>{self._at}")
        return features

    def _of_value(self, value: Value, key: str, given: Any) -> list[str]:
        """What can be said of a value at this place."""
        said: list[str] = []
        for source in value.sources:
            said.append(self._named(source))
            if source.before:
                before = frozenset(stem for word in source.before for stem in name_words(word))
                if self._telling <= before:
                    said.append("before=")
                elif not self._telling.isdisjoint(before):
                    said.append("before~")
            if source.place is not None:
                last = self._last_in_list.get((source.record[0], source.path))
                if last is None:
                    said.append("first in list" if source.place == 0 else "later in list")
                else:
                    said.append("next in list" if source.place == last + 1 else "elsewhere in list")
        form = shape(given if isinstance(given, str) else key)
        said.append(f"shape {form}")
        shapes = self._place.shapes
        if shapes:
            # Identifiers look alike; of free text no shape says much.
            strict = 3 * len(shapes) <= shapes.total()
            said.append(("shape=" if form in shapes else "shape!") + (" strictly" if strict else ""))
        if self._recalled and argument_digest(self._tool, self.name, key) in self._recalled:
            said.append("recalled")
        if key in self._used:
            said.append("used here")
            if key == self._used[-1]:
                said.append("last used here")
        elif self._used:
            said.append("not used here")
        if len(value.sources) > 1:
            said.append(f"in {len(value.sources)} places")
        said += self._of_constant(key)
        return list(dict.fromkeys(said))

    def _of_constant(self, key: str) -> list[str]:
        digest = digest_of(key)
        count = self._place.seen.get(digest, 0)
        if not count:
            return []
        often = count > 1 and count > 0.3 * self._place.seen.total()
        return ["known", f"= {digest}", "constant often"] if often else ["known", f"= {digest}"]

    def _named(self, source: Source) -> str:
        """How a value is named where it was found, compared with how the parameter is."""
        name = frozenset(source.name)
        if not name:
            return f"unnamed {source.kind}"
        if name == self._words:
            return "named="
        if not (self._telling - _VAGUE).isdisjoint(name):
            return "named~"
        return "named otherwise"

    def _beside(self, index: int, chosen: set[tuple[Any, ...]]) -> list[str]:
        value = self.options.values[index]
        if not chosen or value is None:
            return []
        return ["beside"] if not chosen.isdisjoint(value.records) else ["apart"]

    def _beside_weight(self, index: int, chosen: set[tuple[Any, ...]]) -> float:
        return sum(map(self._weigh, self._beside(index, chosen)))

    def _index_of(self, given: Any) -> int:
        if given is not LEFT_OUT:
            key = key_of(given)
            for index, each in enumerate(self.options.given):
                if not isinstance(each, _Choice) and key_of(each) == key:
                    return index
        elif LEFT_OUT in self.options.given:
            return self.options.given.index(LEFT_OUT)
        return len(self.options.given) - 1

    def _usual_type(self) -> str:
        return self._place.types.most_common(1)[0][0] if self._place.types else "string"
