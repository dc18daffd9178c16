"""Tools as the model sees them: of a known family under many names, or invented on the spot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Any

from .families import DEMO_FAMILIES, FAMILIES, Family, Parameter
from .options import draw_optional
from .smalltalk import GENERIC_DESCRIPTION_ENDINGS
from .vocabulary import Vocabulary

VERBS = (
    *"get fetch check update delete open start stop list send approve archive assign block cancel close compare count create download enable disable export find grant import inspect install invite label launch lock merge move pause print publish rate refresh rename report reset restore resume review scan share sort submit sync test unlock upload validate verify feed charge rent buy sell order measure ping arm mount paint route query show read compute calculate estimate predict book reserve roll draw generate recommend suggest request register track".split(),
    *("get", "get", "fetch", "find", "check", "list", "show", "look up", "look up"),
)
ASKING_VERBS = frozenset(
    (
        "look up",
        *"get fetch check find inspect query show list compute calculate estimate predict count measure read report".split(),
    )
)
"""Verbs of tools that a question asks for."""
SYNONYMS = {
    "get": ["retrieve", "return", "fetch", "look up", "show", "tell", "report"],
    "look up": ["lookup", "find", "get"],
    "show": ["get", "display", "return"],
    "list": ["show", "get all", "return all"],
    "compute": ["calculate", "work out"],
    "book": ["reserve", "order"],
    "fetch": ["get", "retrieve"],
    "delete": ["remove", "erase"],
    "start": ["launch", "begin", "run"],
    "stop": ["end", "halt"],
    "create": ["make", "add"],
    "update": ["change", "modify", "edit"],
    "find": ["search", "locate"],
    "check": ["inspect", "show"],
    "send": ["submit", "deliver"],
    "cancel": ["stop", "abort"],
}

INVENTED_KINDS = (
    ("code", "id"), ("id", "id"), ("name", "person"), ("name", "word"), ("key", "id"), ("target", "topic"),
    ("value", "number"), ("city", "city"), ("city", "city"), ("place", "city"), ("date", "date"), ("time", "time"),
    ("amount", "number"), ("label", "noun"), ("level", "integer"), ("owner", "person"), ("path", "path"),
    ("query", "topic"), ("title", "title"), ("text", "text"), ("text", "short"), ("symbol", "symbol"),
    ("room", "room"), ("person", "person"), ("count", "integer"), ("topic", "topic"), ("user", "person"),
    ("country", "country"), ("language", "language"), ("currency", "currency"), ("email", "address"),
    ("url", "address"), ("number", "integer"), ("word", "noun"), ("item", "noun"), ("product", "topic"),
    ("location", "city"), ("user_id", "id"), ("order_id", "id"),
)  # fmt: skip
"""Names of an invented tool's parameters, each with what it is filled with."""


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
        """The OpenAI function schema of this tool."""
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


class Toolsmith:
    """Draws tools from one random source."""

    def __init__(self, rng: Random, vocabulary: Vocabulary) -> None:
        """``rng`` is shared with the rest of the author: the order of draws is part of the recipe."""
        self.rng = rng
        self.vocabulary = vocabulary

    def tool(self, family: Family, *, names: str = "mixed", plain: bool = False) -> Tool:
        """One tool of a family. ``names``: "usual", "mixed" (training) or "held-out"; ``plain``: usual parameters."""
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
            taken = {name for _, name in parameters}
            optional = draw_optional(rng, taken, weather=family.key == "get_weather")
        description = self._described(rng.choice(family.descriptions), parameters)
        return Tool(name, description, parameters, optional, family)

    def invented_tool(self) -> Tool:
        """A tool of no family: its use follows from its description and parameters alone."""
        rng, v = self.rng, self.vocabulary
        noun = v.noun(rng) if rng.random() < 0.75 else f"{v.noun(rng)} {v.noun(rng)}"
        verb = rng.choice(VERBS)
        shown = rng.choice(SYNONYMS[verb]) if verb in SYNONYMS and rng.random() < 0.3 else verb
        parameters = () if rng.random() < 0.07 else self._invented_parameters()
        words = shown.split() + noun.split() if rng.random() < 0.7 else noun.split() + shown.split()
        if rng.random() < 0.12:
            words = [v.invented(rng)] + ([v.invented(rng)] if rng.random() < 0.4 else [])
        elif rng.random() < 0.12:
            words = noun.split()
        optional: tuple[tuple[str, str], ...] = ()
        if parameters and rng.random() < 0.15:
            optional = draw_optional(rng, {name for _, name in parameters}, weather=False)
        purpose = f"{shown.capitalize()} {rng.choice(['the ', 'a ', '', 'one '])}{noun}"
        if verb in ASKING_VERBS and rng.random() < 0.25:
            purpose = f"{rng.choice(['The ', '', ''])}{noun}"
            purpose = purpose[0].upper() + purpose[1:]
        if parameters:
            first = parameters[0][1].replace("_", " ")
            ends = [
                "",
                "",
                "",
                " by {}",
                " by its {}",
                " of a {}",
                " for a {}",
                " in a {}",
                " at a {}",
                " for the given {}",
            ]
            purpose += rng.choice(ends).format(first)
        description = self._described(purpose, parameters)
        return Tool(self._join_name(words), description, parameters, optional, None, verb, noun)

    def _invented_parameters(self) -> tuple[tuple[Parameter, str], ...]:
        rng, v = self.rng, self.vocabulary
        chosen: dict[str, str] = {}
        for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3])):
            name, slot = rng.choice(INVENTED_KINDS)
            if rng.random() < 0.3:
                name = v.noun(rng).lower()
                if rng.random() < 0.25:
                    name += rng.choice(["_name", "_id", "_code", " name", "_title", "_number"])
            if slot not in chosen.values():
                chosen.setdefault(re.sub(r"\W+", "_", name), slot)
        return tuple(
            (Parameter(n, s, "integer" if s == "integer" else "number" if s == "number" else "string"), n)
            for n, s in chosen.items()
        )

    def _described(self, purpose: str, parameters: tuple[tuple[Parameter, str], ...]) -> str:
        """``purpose`` as descriptions go on: not at all, with a remark, or with all parameters listed."""
        rng = self.rng
        if rng.random() < 0.94 or not parameters:
            return purpose + rng.choice(GENERIC_DESCRIPTION_ENDINGS)
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
            result = [self.tool(FAMILIES[key], names=names) for key in keys] + [
                self.invented_tool() for _ in range(invented)
            ]
        unique = list({tool.name: tool for tool in result}.values())
        rng.shuffle(unique)
        return unique

    def _invented_name(self, family: Family) -> str:
        rng, v = self.rng, self.vocabulary
        if rng.random() < 0.1:
            return self._join_name([v.invented(rng)])
        first = v.noun(rng) if rng.random() < 0.5 else rng.choice(VERBS)
        second = rng.choice(family.nouns) if rng.random() < 0.4 else v.noun(rng)
        return self._join_name([first, second] if rng.random() < 0.5 else [second, first])

    def _join_name(self, words: list[str]) -> str:
        rng = self.rng
        words = [re.sub(r"\W+", "", word.lower()) or "x" for word in words]
        style = rng.random()
        if style < 0.72:
            return "_".join(words)
        if style < 0.84:
            return words[0] + "".join(word.capitalize() for word in words[1:])
        if style < 0.92:
            return ".".join(words)
        return "-".join(words) if style < 0.96 else "".join(words)
