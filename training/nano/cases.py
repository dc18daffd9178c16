"""Cases for the evaluation: turns whose words and wordings never occur in training, over sets of tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from .dialogues import Author
from .families import DEMO_FAMILIES, FAMILIES
from .turns import Dialogue, Step, Turn


@dataclass(frozen=True)
class Case:
    """One turn over one set of tools."""

    dialogue: Dialogue
    turn: Turn

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools in OpenAI's shape."""
        return [tool.schema() for tool in self.dialogue.tools]

    def messages(self, done: int) -> list[dict[str, Any]]:
        """The expected history after ``done`` messages with calls, and the results of these."""
        history: list[dict[str, Any]] = [
            {"role": "system", "content": self.dialogue.system},
            {"role": "user", "content": self.turn.request},
        ]
        for steps in self.turn.messages[:done]:
            history += _called(steps, len(history))
        return history


def _called(steps: Sequence[Step], number: int) -> list[dict[str, Any]]:
    calls, results = [], []
    for index, step in enumerate(steps):
        function = {"name": step.name, "arguments": json.dumps(dict(step.arguments), ensure_ascii=False)}
        call_id = f"call_{number}_{index}"
        calls.append({"id": call_id, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": call_id, "content": step.result})
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def _demo_cases(author: Author, count: int, *, chain: bool) -> list[Case]:
    keys = [key for key in DEMO_FAMILIES if FAMILIES[key].chain_to] if chain else list(DEMO_FAMILIES)
    cases: list[Case] = []
    while len(cases) < count:
        tools = author.toolsmith.tools(10, demo=True, names="usual")
        key = keys[len(cases) % len(keys)]
        tool = next(tool for tool in tools if tool.family is not None and tool.family.key == key)
        turn = author.turn(tools, tool, chain=chain)
        if not chain or len(turn.steps) == 2:
            cases.append(Case(Dialogue(author.system_prompt(), tools), turn))
    return cases


def _renamed_cases(author: Author, count: int, *, invented: bool) -> list[Case]:
    cases: list[Case] = []
    while len(cases) < count:
        tools = author.toolsmith.tools(author.rng.randint(6, 10), demo=False, names="held-out")
        fitting = [tool for tool in tools if (tool.family is None) == invented]
        if fitting:
            turn = author.turn(tools, author.rng.choice(fitting))
            cases.append(Case(Dialogue(author.system_prompt(), tools), turn))
    return cases


def _toolless_cases(author: Author, count: int, *, small_talk: bool) -> list[Case]:
    cases: list[Case] = []
    for _ in range(count):
        tools = author.toolsmith.tools(author.rng.randint(6, 10), demo=True, names="usual")
        turn = author.small_talk() if small_talk else author.unserved(tools)
        cases.append(Case(Dialogue(author.system_prompt(), tools), turn))
    return cases


def _several_cases(author: Author, count: int) -> list[Case]:
    cases: list[Case] = []
    while len(cases) < count:
        demo = len(cases) % 2 == 0
        tools = author.toolsmith.tools(
            author.rng.randint(3, 10), demo=demo, names="usual" if demo else "held-out"
        )
        turn = author.several(tools)
        if turn is not None:
            cases.append(Case(Dialogue(author.system_prompt(), tools), turn))
    return cases


def held_out_cases(count: int, seed: int = 99) -> dict[str, list[Case]]:
    """``count`` cases of each kind, from held-out words and wordings; the same for the same seed.

    The "familiar" ones use held-out words in trained wordings, to tell the two apart.
    """
    author = Author(Random(seed), "held-out")
    familiar = Author(Random(seed + 1), "held-out", wording="train")
    return {
        "familiar": _demo_cases(familiar, count, chain=False),
        "familiar chain": _demo_cases(familiar, count, chain=True),
        "demo": _demo_cases(author, count, chain=False),
        "chain": _demo_cases(author, count, chain=True),
        "renamed": _renamed_cases(author, count, invented=False),
        "invented": _renamed_cases(author, count, invented=True),
        "unserved": _toolless_cases(author, count, small_talk=False),
        "small_talk": _toolless_cases(author, count, small_talk=True),
        "several": _several_cases(author, count),
    }
