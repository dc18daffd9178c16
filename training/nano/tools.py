"""Tools as the model sees them: of a known family under many names, or invented on the spot."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .families import DEMO_FAMILIES, FAMILIES, Family, Parameter
from .grammar import capitalised, lines, load
from .vocabulary import Drawing

_DATA: Final = load("tools")
_VERBS = (*_DATA["verbs"].split(), *_DATA["more_verbs"])
ASKING_VERBS: Final = frozenset(_DATA["asking_verbs"])
"""Verbs of tools that a question asks for."""
_KINDS = [tuple(line.split()) for line in lines(_DATA["parameters"])]


class Option(NamedTuple):
    """An optional parameter: its schema type, what a request may add, and the values it may have."""

    type: str
    mentions: str
    """A request line's end, with ``{option}`` for the value."""
    values: list[str]


def _options(name: str) -> Mapping[str, Option]:
    return {
        each: Option(
            entry["type"],
            entry["mentions"],
            entry["values"].split() if "values" in entry else entry["type"].split("|"),
        )
        for entry in _DATA[name]
        for each in entry["names"].split()
    }


_WEATHER_OPTIONS = _options("weather_options")
OPTIONS: Final = {**_options("options"), **_WEATHER_OPTIONS}


@dataclass(frozen=True)
class Tool:
    """A tool as the model sees it; ``family`` is ``None`` for invented tools."""

    name: str
    description: str
    parameters: tuple[tuple[Parameter, str], ...]  # (parameter, its name in this dialogue)
    optional: tuple[tuple[str, str], ...] = ()
    family: Family | None = None
    verb: str = ""
    noun: str = ""

    def schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        named = [*((name, parameter.type) for parameter, name in self.parameters), *self.optional]
        for name, kind in named:
            properties[name] = {"type": "string", "enum": kind.split("|")} if "|" in kind else {"type": kind}
        required = [name for _, name in self.parameters]
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {"type": "object", "properties": properties, "required": required},
            },
        }


class Toolsmith(Drawing):
    """Draws tools."""

    def tool(self, family: Family, *, names: str = "mixed", plain: bool = False) -> Tool:
        """One tool of a family.

        ``names`` is "usual", "mixed" (in training) or "held-out"; a ``plain`` one has the usual parameters.
        """
        rng = self.rng
        name = family.names[0]
        if names == "held-out":
            name = rng.choice(family.held_out_names) if rng.random() < 0.5 else self._invented_name(family)
        elif names == "mixed":
            draw = rng.random()
            if draw > 0.7:
                name = rng.choice(family.names)
            elif draw > 0.15:
                name = self._invented_name(family)
        parameters = tuple(
            (p, rng.choice(p.aliases) if not plain and p.aliases and rng.random() < 0.3 else p.name)
            for p in family.parameters
        )
        if len({n for _, n in parameters}) < len(parameters):
            parameters = tuple((p, p.name) for p in family.parameters)
        optional: tuple[tuple[str, str], ...] = ()
        if not plain and rng.random() < 0.25:
            optional = self._optional({name for _, name in parameters}, weather=family.key == "get_weather")
        description = self._described(rng.choice(family.descriptions), parameters)
        return Tool(name, description, parameters, optional, family)

    def _optional(self, taken: Collection[str], *, weather: bool = False) -> tuple[tuple[str, str], ...]:
        """One or two optional parameters, as names and schema types, none of them in ``taken``."""
        rng = self.rng
        names = sorted(
            name for name in OPTIONS if (weather or name not in _WEATHER_OPTIONS) and name not in taken
        )
        if weather and rng.random() < 0.6:
            names = sorted(_WEATHER_OPTIONS)
        chosen = dict.fromkeys(rng.choice(names) for _ in range(rng.choice([1, 1, 1, 2])))
        return tuple((name, OPTIONS[name].type) for name in chosen)

    def invented_tool(self) -> Tool:
        """A tool of no family: its use follows from its description and parameters alone."""
        rng, v = self.rng, self.vocabulary
        noun = v.noun(rng) if rng.random() < 0.75 else f"{v.noun(rng)} {v.noun(rng)}"
        verb = rng.choice(_VERBS)
        synonyms = _DATA["synonyms"].get(verb)
        shown = rng.choice(synonyms) if synonyms and rng.random() < 0.3 else verb
        parameters = () if rng.random() < 0.07 else self._invented_parameters()
        words = shown.split() + noun.split() if rng.random() < 0.7 else noun.split() + shown.split()
        if rng.random() < 0.12:
            words = [v.invented(rng)] + ([v.invented(rng)] if rng.random() < 0.4 else [])
        elif rng.random() < 0.12:
            words = noun.split()
        optional: tuple[tuple[str, str], ...] = ()
        if parameters and rng.random() < 0.15:
            optional = self._optional({name for _, name in parameters})
        purpose = f"{shown.capitalize()} {rng.choice(['the ', 'a ', '', 'one '])}{noun}"
        if verb in ASKING_VERBS and rng.random() < 0.25:
            purpose = capitalised(f"{rng.choice(['The ', '', ''])}{noun}")
        if parameters:
            purpose += rng.choice(_DATA["purpose_endings"]).format(parameters[0][1].replace("_", " "))
        description = self._described(purpose, parameters)
        return Tool(self._join_name(words), description, parameters, optional, None, verb, noun)

    def _invented_parameters(self) -> tuple[tuple[Parameter, str], ...]:
        rng, v = self.rng, self.vocabulary
        chosen: dict[str, str] = {}
        for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3])):
            name, slot = rng.choice(_KINDS)
            if rng.random() < 0.3:
                name = v.noun(rng).lower()
                if rng.random() < 0.25:
                    name += rng.choice(["_name", "_id", "_code", " name", "_title", "_number"])
            if slot not in chosen.values():
                chosen.setdefault(re.sub(r"\W+", "_", name), slot)
        return tuple(
            (Parameter(name, slot, slot if slot in ("integer", "number") else "string"), name)
            for name, slot in chosen.items()
        )

    def _described(self, purpose: str, parameters: tuple[tuple[Parameter, str], ...]) -> str:
        """``purpose`` as descriptions go on: not at all, with a remark, or with all parameters listed."""
        rng = self.rng
        if rng.random() < 0.94 or not parameters:
            return purpose + str(rng.choice(_DATA["description_endings"]))
        named = "".join(
            f"\n    {name}: {rng.choice(['the ', 'The ', 'a ', ''])}{name.replace('_', ' ')}"
            for _, name in parameters
        )
        return f"{purpose}.\n\nArgs:{named}"

    def tools(self, count: int, *, demo: bool, names: str) -> list[Tool]:
        """``count`` tools in random order: the demo's, or any families with a few invented ones."""
        rng = self.rng
        if demo:
            chosen = list(DEMO_FAMILIES)
            while len(chosen) > count:
                chosen.remove(rng.choice(chosen))
            result = [self.tool(FAMILIES[key], names=names, plain=True) for key in chosen]
        else:
            invented = rng.choice([0, 1, 1, 2, 2, 3, 4]) if count > 1 else rng.choice([0, 1])
            keys = rng.sample(sorted(FAMILIES), max(0, count - invented))
            for key in tuple(keys):
                target = FAMILIES[key].chain_to
                if target and target not in keys and rng.random() < 0.85:
                    keys.append(target)
            result = [self.tool(FAMILIES[key], names=names) for key in keys]
            result += [self.invented_tool() for _ in range(invented)]
        unique = list({tool.name: tool for tool in result}.values())
        rng.shuffle(unique)
        return unique

    def _invented_name(self, family: Family) -> str:
        rng, v = self.rng, self.vocabulary
        if rng.random() < 0.1:
            return self._join_name([v.invented(rng)])
        first = v.noun(rng) if rng.random() < 0.5 else rng.choice(_VERBS)
        second = rng.choice(family.nouns) if rng.random() < 0.4 else v.noun(rng)
        return self._join_name([first, second] if rng.random() < 0.5 else [second, first])

    def _join_name(self, words: list[str]) -> str:
        words = [re.sub(r"\W+", "", word.lower()) or "x" for word in words]
        style = self.rng.random()
        if style < 0.72:
            return "_".join(words)
        if style < 0.84:
            return words[0] + "".join(word.capitalize() for word in words[1:])
        if style < 0.92:
            return ".".join(words)
        return "-".join(words) if style < 0.96 else "".join(words)
