"""Synthetic tool-use dialogues: the training data and, with held-out words and wordings, the evaluation.

A :class:`Dialogue` is a set of tools and a list of :class:`Turn`; a turn is a request, the calls that serve
it with their results, and the answer. Everything is drawn from one seeded ``random.Random``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from .families import FAMILIES, Family
from .grammar import capitalised, expand, lines, load, named
from .results import Results
from .searches import THING, Searches
from .tools import OPTIONS, Tool, Toolsmith
from .turns import USUAL_MIX, Dialogue, Mix, Step, Turn, together
from .vocabulary import Split, Vocabulary
from .wording import Wording, alternatives_of, listed, requests_to, takes_free_text

_REQUESTS: Final = load("requests")
_SAID: Final = load("smalltalk")


class SmallTalk(NamedTuple):
    """What may be said, and the reply to it."""

    said: tuple[str, ...]
    reply: str


def _small_talk(entries: list[Mapping[str, Any]]) -> tuple[SmallTalk, ...]:
    return tuple(SmallTalk(lines(named(entry["said"], _SAID["words"])), entry["reply"]) for entry in entries)


SMALL_TALK: Final = _small_talk(_SAID["small_talk"])
HELD_OUT_SMALL_TALK: Final = _small_talk(_SAID["held_out_small_talk"])
UNSERVED: Final = lines(_SAID["unserved"])
NEAR_MISSES: Final = lines(_SAID["near_misses"])
HELD_OUT_UNSERVED: Final = lines(_SAID["held_out_unserved"])
NO_TOOL_REPLY: Final[str] = _SAID["no_tool_reply"]
SYSTEM_PROMPTS: Final = lines(_SAID["system_prompts"])
SERVED_BY: Final = tuple(
    (re.compile(rf"(?i)\b({entry['words']})\b"), frozenset(entry["families"].split()))
    for entry in _SAID["served_by"]
)
"""What a request is about that one of these families may serve after all: with it there, it is not used."""
CONFUSABLE: Final = {
    family: group for group, families in _SAID["confusable"].items() for family in families.split()
}
"""Families of which a request to one may be served by another: never the one as what no tool serves."""
_HELD_OUT_SAYINGS = {text for said, _ in HELD_OUT_SMALL_TALK for text in said}
_ASKS = re.compile(r"(?i)(^|, )(who|what|how|are|which|do|does|did|can) ")


class Author:
    """Writes dialogues of one split, in training's wordings or the held-out ones."""

    def __init__(
        self,
        rng: Random,
        split: Split,
        *,
        wording: Split | None = None,
        blends: float = 0.0,
        unknown_words: float = 0.0,
    ) -> None:
        """``wording`` is ``split`` by default; ``blends`` is for the vocabulary, the rest for the wording."""
        self.rng = rng
        self.vocabulary = Vocabulary(split, blends)
        self.wording = wording or split
        self.toolsmith = Toolsmith(rng, self.vocabulary)
        self._wording = Wording(rng, self.vocabulary, self.wording, unknown_words)
        self._results = Results(rng, self.vocabulary)
        self._searches = Searches(rng, self.vocabulary, self._results.shapes)

    def turn(self, tools: list[Tool], tool: Tool, *, chain: bool = False) -> Turn:
        """A turn that asks for ``tool``; with ``chain`` the request wants the first hit read as well."""
        request, values = self._ask(tool, chain=chain)
        return self._served(tools, tool, request, values, chain=chain)

    def several(self, tools: list[Tool]) -> Turn | None:
        """A turn that asks for several calls at once; ``None`` if ``tools`` offer none to combine."""
        rng = self.rng
        listing = [tool for tool in tools if listed(tool) is not None]
        if listing and rng.random() < 0.6:
            return self._one_tool_for_several(tools, rng.choice(listing))
        first = [tool for tool in tools if not takes_free_text(tool)]
        if not first or len(tools) < 2:
            return None
        one = rng.choice(first)
        other = rng.choice([tool for tool in tools if tool is not one])
        turns = [self.turn(tools, one), self.turn(tools, other)]
        if any(len(turn.steps) != 1 for turn in turns):
            return None
        return together(turns, self._joined(turns[0].request, turns[1].request))

    def _one_tool_for_several(self, tools: list[Tool], tool: Tool) -> Turn:
        """ "The weather in Paris and Rome": one call for each of two or three values."""
        rng = self.rng
        slot = listed(tool)
        assert slot is not None
        count = rng.choice([2, 2, 2, 2, 3])
        entities: list[str] = []
        while len(entities) < count:
            entity = self.vocabulary.draw(rng, slot)
            if " and " not in entity and "," not in entity and entity not in entities:
                entities.append(entity)
        line = expand(rng, rng.choice(_REQUESTS["two" if count == 2 else "three"])).format(*entities)
        names = alternatives_of(slot)
        request, values = self._ask(tool, given=dict.fromkeys(names, line))
        while line not in request:  # some lines leave out what has a default
            request, values = self._ask(tool, given=dict.fromkeys(names, line))
        turns = [
            self._served(tools, tool, request, {**values, **dict.fromkeys(names, each)}) for each in entities
        ]
        return together(turns, request)

    def _joined(self, one: str, other: str) -> str:
        rng = self.rng
        one = re.sub(r"[.?! ]+$", "", one)
        if rng.random() < 0.8 and not re.match(r"I\b|[A-Z]{2}", other):
            other = other[0].lower() + other[1:]
        return one + str(rng.choice(_REQUESTS["separators"])) + other

    def _ask(
        self, tool: Tool, *, chain: bool = False, given: Mapping[str, str] | None = None
    ) -> tuple[str, dict[str, str]]:
        """A request for ``tool`` and the values in it; ``given`` are values to use."""
        rng, family = self.rng, tool.family
        if family is None:
            lines, held_out = requests_to(tool, rng)
        elif chain:
            lines, held_out = family.chain_requests, family.chain_held_out
        else:
            lines, held_out = family.requests, family.held_out
        values = dict(given or {})
        mention = ""
        if tool.optional and rng.random() < 0.35:
            name, _ = rng.choice(tool.optional)
            mention = OPTIONS[name].mentions
            values |= {"option": rng.choice(OPTIONS[name].values), "option_name": name}
        request, values = self._wording.ask(
            lines, held_out, given=values, mention=mention, verbs_matter=chain
        )
        for parameter in family.parameters if family is not None else ():
            if parameter.default:
                values.setdefault(parameter.slot, parameter.default)
        return request, values

    def _served(
        self, tools: list[Tool], tool: Tool, request: str, values: Mapping[str, str], *, chain: bool = False
    ) -> Turn:
        """The turn that serves ``request`` with a call of ``tool`` for its ``values``."""
        family = tool.family
        arguments = self._wording.arguments(tool, values)
        if family is not None and family.chain_to:
            return self._search_turn(tools, tool, request, arguments, chain)
        if family is None:
            result, answer, facts = self._results.generic(tool.noun)
        elif family.key in {"read_note", "read_mail", "read_file"}:
            result, answer, facts = self._results.read(family.key, str(next(iter(arguments.values()))))
        else:
            result, answer, facts = self._results.of_family(family.key, values)
        kind = "invented" if family is None else family.key
        return Turn(kind, request, (Step(tool.name, arguments, result),), answer, facts)

    def _search_turn(
        self, tools: list[Tool], tool: Tool, request: str, arguments: dict[str, Any], chain: bool
    ) -> Turn:
        rng, family = self.rng, tool.family
        assert family is not None
        query = str(next(iter(arguments.values())))
        kind = f"{family.key}+{family.chain_to}" if chain else family.key
        if rng.random() < 0.06:
            result, answer, facts = self._results.generic()
            return Turn(kind, request, (Step(tool.name, arguments, result),), answer, facts)
        count = rng.choice([0, 1, 1, 1, 2, 2, 3])
        findings = (
            self._searches.hits(family.key, query, count)
            if count
            else self._searches.nothing(family.key, query)
        )
        step = Step(tool.name, arguments, findings.result)
        reader = self._reader(tools, family)
        if chain and findings.targets and reader is not None:
            target = findings.targets[0]
            result, answer, facts = self._results.read(family.chain_to, target)
            steps = (step, Step(reader.name, {reader.parameters[0][1]: target}, result))
            return Turn(kind, request, steps, answer, facts, found=findings.targets)
        return Turn(kind, request, (step,), findings.answer, findings.facts, found=findings.targets)

    def _reader(self, tools: list[Tool], searching: Family) -> Tool | None:
        """The tool that reads what ``searching`` finds, if there is one."""
        return next((t for t in tools if t.family is not None and t.family.key == searching.chain_to), None)

    def follow_up(self, tools: list[Tool], previous: Turn) -> Turn | None:
        """ "Read the first one", "and in Rome?"; ``None`` if nothing goes on from the previous turn."""
        rng = self.rng
        if len(previous.steps) != 1:
            return None
        if previous.kind in THING:
            return self._read_on(tools, previous)
        tool = next(tool for tool in tools if tool.name == previous.steps[0].name)
        slot = listed(tool)
        if slot is None:
            return None
        entity = self.vocabulary.draw(rng, slot)
        line = expand(rng, _REQUESTS["the_same"])
        where = rng.choice(["in ", "for ", ""]) if slot == "city" else ""
        values = dict.fromkeys(alternatives_of(slot), entity)
        request = line.format(where + entity if line.startswith("and {") else entity)
        return self._served(tools, tool, capitalised(request), values)

    def _read_on(self, tools: list[Tool], previous: Turn) -> Turn | None:
        """A hit of the previous search is to be read: mostly the first, or one by its place, or all."""
        rng = self.rng
        reader = self._reader(tools, FAMILIES[previous.kind])
        if not previous.found or reader is None:
            return None
        thing, found = THING[previous.kind], previous.found
        draw = rng.random()
        if len(found) == 1 or draw < 0.6:
            which, chosen = "first", found[:1]
        elif draw < 0.75:
            which, chosen = "second", found[1:2]
        elif draw < 0.85:
            which, chosen = "last", found[-1:]
        else:
            which, chosen = "both" if len(found) == 2 else "all", found
        line = named(named(_REQUESTS["read_on"], {"which": _REQUESTS[which]}), {"thing": thing})
        request = capitalised(self._wording.polite(expand(rng, line)))
        turns = []
        for target in chosen:
            result, answer, facts = self._results.read(FAMILIES[previous.kind].chain_to, target)
            step = Step(reader.name, {reader.parameters[0][1]: target}, result)
            turns.append(Turn("follow_up", request, (step,), answer, facts))
        return turns[0] if len(turns) == 1 else together(turns, request)

    def small_talk(self) -> Turn:
        """A greeting, thanks, or a question about the assistant itself."""
        rng = self.rng
        held_out = self.wording == "held-out"
        said, reply = rng.choice(HELD_OUT_SMALL_TALK if held_out else SMALL_TALK)
        text = self._wording.fill(expand(rng, rng.choice(said)))
        if not held_out and text.lower() in _HELD_OUT_SAYINGS:
            return self.small_talk()
        text = capitalised(text) if rng.random() < 0.6 else text
        asks = _ASKS.search(text) is not None
        return Turn(
            "small_talk",
            text + (rng.choice(["?", "?", ""]) if asks else rng.choice(["", "", ".", "!"])),
            (),
            reply,
            (reply,),
        )

    def unserved(self, tools: list[Tool]) -> Turn:
        """A request that none of ``tools`` can serve."""
        rng = self.rng
        present = {tool.family.key for tool in tools if tool.family is not None}
        here = {CONFUSABLE.get(key, key) for key in present}
        absent = [
            family for family in FAMILIES.values() if CONFUSABLE.get(family.key, family.key) not in here
        ]
        if absent and rng.random() < 0.35 and not any(tool.family is None for tool in tools):
            family = rng.choice(absent)
            request, _ = self._wording.ask(family.requests, family.held_out, verbs_matter=True)
        else:
            lines = NEAR_MISSES if rng.random() < 0.35 else UNSERVED
            request, _ = self._wording.ask(lines, HELD_OUT_UNSERVED, verbs_matter=True)
            if any(serving & present and words.search(request) for words, serving in SERVED_BY):
                return self.unserved(tools)
        return Turn("unserved", request, (), NO_TOOL_REPLY, (NO_TOOL_REPLY,))

    def system_prompt(self) -> str:
        """One of many short system prompts, at times with today's date."""
        prompt = self.rng.choice(SYSTEM_PROMPTS)
        if self.rng.random() < 0.12:
            prompt += f" Today is {self.vocabulary.date(self.rng)}."
        return prompt

    def any_turn(self, tools: list[Tool], turns: Sequence[Turn], mix: Mix, calls_only: bool = False) -> Turn:
        """The next turn of a training dialogue after ``turns``."""
        rng = self.rng
        previous = turns[-1] if turns else None
        called = {step.name for turn in turns for step in turn.steps}
        draw = rng.random()
        if draw < mix.small_talk:
            return self.small_talk()
        if draw < mix.small_talk + mix.unserved or not tools:
            return self.unserved(tools) if tools or rng.random() < 0.5 else self.small_talk()
        if (
            previous is not None
            and draw < 0.3
            and not calls_only
            and (turn := self.follow_up(tools, previous)) is not None
        ):
            return turn
        if rng.random() < mix.several and (turn := self.several(tools)) is not None:
            return turn
        unused = [tool for tool in tools if tool.name not in called]
        # What was called before should say little about what to call next.
        candidates = unused if unused and rng.random() < 0.8 else tools
        if mix.searches:
            searching = [tool for tool in candidates if tool.family is not None and tool.family.chain_to]
            candidates = searching if searching and rng.random() < mix.searches else candidates
        weights = [
            2.0 if tool.family is None else 1.6 if tool.family.chain_to else 1.2 for tool in candidates
        ]
        tool = rng.choices(candidates, weights)[0]
        chain = tool.family is not None and bool(tool.family.chain_to) and rng.random() < 0.5
        if mix.searches and tool.family is not None:
            chain = chain and self._reader(tools, tool.family) is not None
        return self.turn(tools, tool, chain=chain)

    def dialogue(
        self, turns: int, most_tools: int = 10, mix: Mix = USUAL_MIX, *, calls_only: bool = False
    ) -> Dialogue:
        """A training dialogue of ``turns`` turns over one random set of at most ``most_tools`` tools."""
        rng = self.rng
        draw = rng.random()
        if draw < 0.4:
            count = rng.choice([10, 10, 10, 10, 9, 8, 7, 6])
            tools = self.toolsmith.tools(
                min(count, most_tools), demo=True, names="usual" if rng.random() < 0.6 else "mixed"
            )
        elif draw < 0.98 or calls_only:
            most = min(3, most_tools) if rng.random() < 0.2 else most_tools
            tools = self.toolsmith.tools(rng.randint(2 if calls_only else 1, most), demo=False, names="mixed")
        else:
            tools = []
        dialogue = Dialogue(self.system_prompt(), tools, calls_only=calls_only)
        for _ in range(turns):
            dialogue.turns.append(self.any_turn(tools, dialogue.turns, mix, calls_only))
        return dialogue
