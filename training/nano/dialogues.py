"""Synthetic tool-use dialogues: the training data and, with held-out words and wordings, the evaluation.

A :class:`Dialogue` is a set of tools and a list of :class:`Turn`; a turn is a request, the calls that serve
it with their results, and the answer. Everything is drawn from one seeded ``random.Random``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .families import FAMILIES, Family
from .results import Results, to_json
from .smalltalk import (
    HELD_OUT_SMALL_TALK,
    HELD_OUT_UNSERVED,
    NEAR_MISSES,
    NO_TOOL_REPLY,
    SMALL_TALK,
    SYSTEM_PROMPTS,
    UNSERVED,
)
from .tools import Tool, Toolsmith
from .vocabulary import Split, Vocabulary
from .wording import Wording, expand

ASKING_VERBS = {"get", "fetch", "check", "find", "inspect", "query"}
CONFUSABLE = {
    "search_notes": "notes",
    "read_note": "notes",
    "search_mail": "mail",
    "read_mail": "mail",
    "search_files": "files",
    "read_file": "files",
    "create_note": "memo",
    "add_todo": "memo",
    "set_reminder": "memo",
    "send_mail": "send",
    "send_message": "send",
}


_HELD_OUT_SAYINGS = {text for said, _ in HELD_OUT_SMALL_TALK for text in said}
_ASKS = re.compile(r"(?i)(^|, )(who|what|how|are|which|do|does|did|can) ")


@dataclass(frozen=True)
class Step:
    """One call and what the tool returned, as text."""

    name: str
    arguments: Mapping[str, Any]
    result: str


@dataclass(frozen=True)
class Turn:
    """A request, the calls that serve it, the answer, and the facts a grounded answer must contain."""

    kind: str
    request: str
    steps: tuple[Step, ...]
    answer: str
    facts: tuple[str, ...] = ()


@dataclass
class Dialogue:
    """Tools, a system prompt and turns."""

    system: str
    tools: list[Tool]
    turns: list[Turn] = field(default_factory=list)
    calls_only: bool = False
    """Show of each turn with a call only the first call: many choices of a tool in little text."""


@dataclass(frozen=True)
class Mix:
    """What a training dialogue's turns ask for."""

    small_talk: float = 0.035
    unserved: float = 0.055
    searches: float = 0.0
    """Share of all other turns that begin with a search, where a tool searches. If there are any, a hit is to
    be read only where a tool reads it."""


class Author:
    """Writes dialogues of one split. ``wording`` chooses the request lines: training's or the held-out ones."""

    def __init__(
        self,
        rng: Random,
        split: Split,
        *,
        wording: Split | None = None,
        blends: float = 0.0,
        unknown_words: float = 0.0,
    ) -> None:
        """``wording`` defaults to ``split``; see :class:`Vocabulary` for ``blends``, :class:`Wording` for the rest."""
        self.rng = rng
        self.vocabulary = Vocabulary.of(split, blends)
        self.wording = wording or split
        self.toolsmith = Toolsmith(rng, self.vocabulary)
        self._wording = Wording(rng, self.vocabulary, self.wording, unknown_words)
        self._results = Results(rng, self.vocabulary)

    def turn(self, tools: list[Tool], tool: Tool, *, chain: bool = False) -> Turn:
        """A turn that asks for ``tool``; with ``chain`` the request wants the first hit read as well."""
        family = tool.family
        if family is None:
            return self._invented_turn(tool)
        if chain:
            request, values = self._wording.ask(
                family.chain_requests, family.chain_held_out, verbs_matter=True
            )
        else:
            request, values = self._wording.ask(family.requests, family.held_out)
        for parameter in family.parameters:
            if parameter.default:
                values.setdefault(parameter.slot, parameter.default)
        arguments = self._wording.arguments(tool, values)
        if family.chain_to:
            return self._search_turn(tools, tool, request, arguments, chain)
        if family.key in {"read_note", "read_mail", "read_file"}:
            return self._read_turn(tool, request, arguments)
        if self.rng.random() < 0.12:
            result, answer, facts = self._results.generic()
        else:
            result, answer, facts = self._results.of_family(family.key, values)
        return Turn(family.key, request, (Step(tool.name, arguments, result),), answer, facts)

    def _invented_turn(self, tool: Tool) -> Turn:
        rng = self.rng
        verb, noun, slots = tool.verb, tool.noun, [(p.slot, n) for p, n in tool.parameters]
        first = "{" + slots[0][0] + "}"
        shown = slots[0][1].replace("_", " ")
        named = f"{shown} {first}"
        joins = "for|of|on|to|at|by|with|from|via|through|under|in|about|against|as|behind|{unknown}"
        lines = [
            f"{verb} the {noun} [for|of|] {first}",
            f"{verb} {noun} {first}",
            f"{verb} [a|my|the|this|our|] {noun} [{joins}] {first}",
            f"{verb} [a|my|the|this|our|] {noun} [{joins}] {first}",
            f"{verb} the {noun} [called|named|with {shown}] {first}",
            f"{verb} the {noun} with {named}",
            f"{verb} the {noun} [whose|where the] {shown} is {first}",
            f"{verb} [a|my|the] {noun}, {named}",
            f"{verb} [a|my|the] {noun} ({named})",
            f"{verb} [the|my|a|] {noun}: {first}",
            f"[I want|I need|I have|I would like|I'd like] to {verb} [the|a|my] {noun} [{joins}|] {first}",
            f"[we|you] [should|must|have to] {verb} [the|a] {noun} [{joins}] {first}",
            f"[it is|it's] time to {verb} [the|a] {noun} [{joins}] {first}",
            f"[use|call|try|run|take] {tool.name} [with|for|on|and|] {first}",
            f"[with|by|on|in|at|about|from|to|under|{{unknown}}] {first}[,|] {verb} [the|a|my] {noun}",
            f"{first}: {verb} [the|a|my|] {noun}",
            f"{noun} {verb} [{joins}|] {first}",
            f"the {noun} [{joins}] {first} [needs|wants] {verb}",
            f"{{unknown}} the {noun} [{joins}] {first}",
        ]
        if verb in ASKING_VERBS:
            lines += [
                f"[what is|what's|which is] the {noun} [of|for|from|at] {first}?",
                f"[tell me|show me|give me|I need] the {noun} [of|for|from|at] {first}",
                f"[which|what] {noun} [has|is at|belongs to] {first}?",
            ]
        held_out = [
            f"for {first} {verb} the {noun}",
            f"{verb} a {noun} using {first}",
        ]
        line = rng.choice(lines)
        rest = ""
        for index, (slot, name) in enumerate(slots[1:]):
            joiner = rng.choice([" and ", ", ", " with "]) if index == 0 else " and "
            rest += (
                joiner + name.replace("_", " ") + rng.choice([" ", " ", " ", ": ", " is "]) + f"{{{slot}}}"
            )
        question = line.endswith("?")
        request, values = self._wording.ask(
            (line.rstrip("?") + rest + ("?" if question else ""),), tuple(one + rest for one in held_out)
        )
        result, answer, facts = self._results.generic(noun)
        return Turn(
            "invented",
            request,
            (Step(tool.name, self._wording.arguments(tool, values), result),),
            answer,
            facts,
        )

    def _read_turn(self, tool: Tool, request: str, arguments: dict[str, Any]) -> Turn:
        assert tool.family is not None
        result, answer, facts = self._results.read(tool.family.key, str(next(iter(arguments.values()))))
        return Turn(tool.family.key, request, (Step(tool.name, arguments, result),), answer, facts)

    def _search_turn(
        self, tools: list[Tool], tool: Tool, request: str, arguments: dict[str, Any], chain: bool
    ) -> Turn:
        rng, v, family = self.rng, self.vocabulary, tool.family
        assert family is not None
        query = str(next(iter(arguments.values())))
        what = {"search_notes": "notes", "search_mail": "mail", "search_files": "files"}[family.key]
        count = rng.choice([0, 1, 1, 1, 2, 2, 3])
        kind = f"{family.key}+{family.chain_to}" if chain else family.key
        if count == 0:
            return Turn(
                kind,
                request,
                (
                    Step(
                        tool.name,
                        arguments,
                        rng.choice(["[]", "[]", to_json({what: []}), to_json({"results": []})]),
                    ),
                ),
                f"I found no {what} about {query}.",
                (query,),
            )
        hits: list[dict[str, str]] = []
        for _ in range(count):
            title = query if rng.random() < 0.25 else v.title(rng)
            if family.key == "search_notes":
                hits.append({"id": v.identifier(rng, "n" if rng.random() < 0.7 else ""), "title": title})
            elif family.key == "search_mail":
                hits.append(
                    {
                        "id": v.identifier(rng, "m" if rng.random() < 0.7 else ""),
                        "from": v.person(rng),
                        "subject": title,
                    }
                )
            else:
                hits.append({"path": v.file_name(rng)})
        listing: Any = hits if rng.random() < 0.8 else {rng.choice([what, "results"]): hits}
        step = Step(tool.name, arguments, to_json(listing))
        key = "path" if family.key == "search_files" else "id"
        reader = self._reader(tools, family)
        if chain and reader is not None:
            target = hits[0][key]
            result, answer, facts = self._results.read(family.chain_to, target)
            return Turn(
                kind,
                request,
                (step, Step(reader.name, {reader.parameters[0][1]: target}, result)),
                answer,
                facts,
            )
        if family.key == "search_mail":
            answer = (
                "Mail I found: " + "; ".join(f'"{hit["subject"]}" from {hit["from"]}' for hit in hits) + "."
            )
            facts = tuple(hit["subject"] for hit in hits) + tuple(hit["from"] for hit in hits)
        elif family.key == "search_notes":
            facts = tuple(hit["title"] for hit in hits)
            answer = "Notes I found: " + "; ".join(facts) + "."
        else:
            facts = tuple(hit["path"] for hit in hits)
            answer = "Files I found: " + "; ".join(facts) + "."
        return Turn(kind, request, (step,), answer, facts)

    def _reader(self, tools: list[Tool], searching: Family) -> Tool | None:
        """The tool that reads what ``searching`` finds, if there is one."""
        return next((t for t in tools if t.family is not None and t.family.key == searching.chain_to), None)

    def follow_up(self, tools: list[Tool], previous: Turn) -> Turn | None:
        """ "Read the first one" after a search; ``None`` if the previous turn offers nothing to read."""
        if len(previous.steps) != 1 or previous.kind not in {"search_notes", "search_mail", "search_files"}:
            return None
        found = json.loads(previous.steps[0].result)
        hits = found if isinstance(found, list) else next(iter(found.values()))
        reader = self._reader(tools, FAMILIES[previous.kind])
        if not hits or reader is None:
            return None
        thing = {"search_notes": "note", "search_mail": "mail", "search_files": "file"}[previous.kind]
        request = self._wording.polite(
            expand(
                self.rng,
                f"[read|open|show me|show] [it|the first one|that one|the first {thing}|that {thing}|the {thing}]",
            )
        )
        target = hits[0]["path" if previous.kind == "search_files" else "id"]
        result, answer, facts = self._results.read(FAMILIES[previous.kind].chain_to, target)
        return Turn(
            "follow_up",
            request[0].upper() + request[1:],
            (Step(reader.name, {reader.parameters[0][1]: target}, result),),
            answer,
            facts,
        )

    def small_talk(self) -> Turn:
        """A greeting, thanks, or a question about the assistant itself."""
        rng = self.rng
        held_out = self.wording == "held-out"
        said, reply = rng.choice(HELD_OUT_SMALL_TALK if held_out else SMALL_TALK)
        text = self._wording.fill(expand(rng, rng.choice(said)))
        if not held_out and text.lower() in _HELD_OUT_SAYINGS:
            return self.small_talk()
        text = text[0].upper() + text[1:] if rng.random() < 0.6 else text
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
        here = {CONFUSABLE.get(tool.family.key, tool.family.key) for tool in tools if tool.family is not None}
        absent = [
            family for family in FAMILIES.values() if CONFUSABLE.get(family.key, family.key) not in here
        ]
        if absent and rng.random() < 0.35 and not any(tool.family is None for tool in tools):
            family = rng.choice(absent)
            request, _ = self._wording.ask(family.requests, family.held_out, verbs_matter=True)
        else:
            lines = NEAR_MISSES if rng.random() < 0.35 else UNSERVED
            request, _ = self._wording.ask(lines, HELD_OUT_UNSERVED, verbs_matter=True)
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
        called = {turn.steps[0].name for turn in turns if turn.steps}
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
        self, turns: int, most_tools: int = 10, mix: Mix = Mix(), *, calls_only: bool = False
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
            tools = self.toolsmith.tools(
                rng.randint(2 if calls_only else 1, most_tools), demo=False, names="mixed"
            )
        else:
            tools = []
        dialogue = Dialogue(self.system_prompt(), tools, calls_only=calls_only)
        for _ in range(turns):
            dialogue.turns.append(self.any_turn(tools, dialogue.turns, mix, calls_only))
        return dialogue
