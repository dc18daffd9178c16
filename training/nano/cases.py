"""Cases for the evaluation: turns whose words and wordings never occur in training, over sets of tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from .dialogues import Author
from .families import DEMO_FAMILIES, FAMILIES
from .tools import Tool
from .turns import Dialogue, Turn, messages_of


@dataclass(frozen=True)
class Case:
    """One turn over one set of tools."""

    dialogue: Dialogue
    turn: Turn

    @property
    def tools(self) -> list[dict[str, Any]]:
        return [tool.schema() for tool in self.dialogue.tools]

    def messages(self, done: int) -> list[dict[str, Any]]:
        """The expected history after ``done`` messages with calls, and the results of these."""
        history: list[dict[str, Any]] = [
            {"role": "system", "content": self.dialogue.system},
            {"role": "user", "content": self.turn.request},
        ]
        for steps in self.turn.messages[:done]:
            history += messages_of(steps, len(history))
        return history


def _cases(
    author: Author,
    count: int,
    tools: Callable[[int], list[Tool]],
    turn: Callable[[list[Tool], int], Turn | None],
) -> list[Case]:
    """``count`` turns over sets of tools; both are drawn for a case's number until there is a turn."""
    cases: list[Case] = []
    while len(cases) < count:
        offered = tools(len(cases))
        asked = turn(offered, len(cases))
        if asked is not None:
            cases.append(Case(Dialogue(author.system_prompt(), offered), asked))
    return cases


def _demo_cases(author: Author, count: int, *, chain: bool) -> list[Case]:
    keys = [key for key in DEMO_FAMILIES if FAMILIES[key].chain_to or not chain]

    def turn(tools: list[Tool], number: int) -> Turn | None:
        key = keys[number % len(keys)]
        tool = next(tool for tool in tools if tool.family is not None and tool.family.key == key)
        asked = author.turn(tools, tool, chain=chain)
        return asked if not chain or len(asked.steps) == 2 else None

    return _cases(author, count, lambda _: author.toolsmith.tools(10, demo=True, names="usual"), turn)


def _renamed_cases(author: Author, count: int, *, invented: bool) -> list[Case]:
    def turn(tools: list[Tool], _: int) -> Turn | None:
        fitting = [tool for tool in tools if (tool.family is None) == invented]
        return author.turn(tools, author.rng.choice(fitting)) if fitting else None

    return _cases(author, count, lambda _: _tools(author, 6, demo=False), turn)


def _tools(author: Author, least: int, *, demo: bool) -> list[Tool]:
    count = author.rng.randint(least, 10)
    return author.toolsmith.tools(count, demo=demo, names="usual" if demo else "held-out")


def held_out_cases(count: int, seed: int = 99) -> dict[str, list[Case]]:
    """``count`` cases of each kind, from held-out words and wordings; the same for the same seed.

    The "familiar" ones use held-out words in trained wordings, to tell the two apart.
    """
    author = Author(Random(seed), "held-out")
    familiar = Author(Random(seed + 1), "held-out", wording="train")

    def demo_tools(_: int) -> list[Tool]:
        return _tools(author, 6, demo=True)

    return {
        "familiar": _demo_cases(familiar, count, chain=False),
        "familiar chain": _demo_cases(familiar, count, chain=True),
        "demo": _demo_cases(author, count, chain=False),
        "chain": _demo_cases(author, count, chain=True),
        "renamed": _renamed_cases(author, count, invented=False),
        "invented": _renamed_cases(author, count, invented=True),
        "unserved": _cases(author, count, demo_tools, lambda tools, _: author.unserved(tools)),
        "small_talk": _cases(author, count, demo_tools, lambda *_: author.small_talk()),
        "several": _cases(
            author,
            count,
            lambda number: _tools(author, 3, demo=number % 2 == 0),
            lambda tools, _: author.several(tools),
        ),
    }
