"""How good the nano models are, measured on dialogues whose entities and wordings never occur in training.

Everything is real inference on :class:`~agentrt.runtime.LocalRuntime`: the model answers, its call is
compared with the expected one (name and every argument exactly), the expected history goes on, and the
answer must contain every fact of the tool's result word for word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from agentrt.calls import ToolCall, canonical_key
from agentrt.runtime.config import RuntimeConfig
from agentrt.runtime.output.generation import Generation
from agentrt.runtime.service import LocalRuntime

from .dialogues import Author, Dialogue, Turn
from .families import DEMO_FAMILIES, FAMILIES

_CONCURRENCY = 8
_MOST_TOKENS = 320
DRAFT_SAMPLES = (1, 3, 5, 7, 9)
DRAFT_TEMPERATURE = 0.8


@dataclass(frozen=True)
class Case:
    """One turn over one set of tools."""

    dialogue: Dialogue
    turn: Turn

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools in OpenAI's shape."""
        return [tool.schema() for tool in self.dialogue.tools]

    def messages(self, steps: int) -> list[dict[str, Any]]:
        """The expected history after ``steps`` calls and their results."""
        history: list[dict[str, Any]] = [
            {"role": "system", "content": self.dialogue.system},
            {"role": "user", "content": self.turn.request},
        ]
        for index, step in enumerate(self.turn.steps[:steps]):
            function = {"name": step.name, "arguments": json.dumps(dict(step.arguments), ensure_ascii=False)}
            call = {"id": f"call_{index}", "type": "function", "function": function}
            history.append({"role": "assistant", "content": None, "tool_calls": [call]})
            history.append({"role": "tool", "tool_call_id": f"call_{index}", "content": step.result})
        return history


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
    }


def _same_call(generation: Generation, name: str, arguments: Mapping[str, Any]) -> bool:
    return len(generation.tool_calls) == 1 and _key(generation.tool_calls[0]) == _key(
        ToolCall(name, arguments)
    )


def _key(call: ToolCall) -> str:
    return canonical_key(call.name, call.arguments)


@dataclass(frozen=True)
class Failure:
    """One case that went wrong, for reading."""

    kind: str
    request: str
    expected: str
    got: str


@dataclass(frozen=True)
class Evaluation:
    """Percentages by measure, and what failed."""

    measures: Mapping[str, float]
    failures: Sequence[Failure]


class _Evaluator:
    def __init__(self, runtime: LocalRuntime, report: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._report = report
        self.failures: list[Failure] = []

    def ask(self, requests: Sequence[tuple[Case, int]]) -> list[Generation]:
        """Greedy generations of ``(case, steps done)``, several at a time."""
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            return list(
                pool.map(
                    lambda request: self._runtime.generate(
                        request[0].messages(request[1]),
                        tools=request[0].tools,
                        max_tokens=_MOST_TOKENS,
                        temperature=0.0,
                    ),
                    requests,
                )
            )

    def _note(self, kind: str, case: Case, expected: str, generation: Generation) -> None:
        got = "; ".join(_key(call) for call in generation.tool_calls) or generation.text
        self.failures.append(Failure(kind, case.turn.request, expected, got))

    def calls(self, kind: str, cases: Sequence[Case]) -> float:
        """Share of cases in which every call of the turn is exact."""
        wanted = [(case, index) for case in cases for index in range(len(case.turn.steps))]
        right = {id(case) for case in cases}
        for (case, index), generation in zip(wanted, self.ask(wanted), strict=True):
            step = case.turn.steps[index]
            if not _same_call(generation, step.name, step.arguments):
                right.discard(id(case))
                self._note(kind, case, _key(ToolCall(step.name, step.arguments)), generation)
        self._report(f"{kind}: {len(cases)} cases")
        return 100 * len(right) / len(cases)

    def answers(self, kind: str, cases: Sequence[Case]) -> float:
        """Share of cases whose answer calls nothing and contains every fact."""
        generations = self.ask([(case, len(case.turn.steps)) for case in cases])
        right = 0
        for case, generation in zip(cases, generations, strict=True):
            if not generation.tool_calls and all(fact in generation.text for fact in case.turn.facts):
                right += 1
            else:
                self._note(kind, case, case.turn.answer, generation)
        self._report(f"{kind}: {len(cases)} cases")
        return 100 * right / len(cases)

    def first_calls(self, cases: Sequence[Case]) -> list[str]:
        """What the model calls first in each case; empty text if it calls nothing."""
        return [
            "".join(_key(call) for call in generation.tool_calls)
            for generation in self.ask([(case, 0) for case in cases])
        ]

    def sampled_calls(self, case: Case, samples: int) -> list[str]:
        """The first calls of ``samples`` draws at :data:`DRAFT_TEMPERATURE`."""
        with ThreadPoolExecutor(samples) as pool:
            drawn = pool.map(
                lambda seed: self._runtime.generate(
                    case.messages(0),
                    tools=case.tools,
                    max_tokens=_MOST_TOKENS,
                    temperature=DRAFT_TEMPERATURE,
                    seed=seed,
                ),
                range(samples),
            )
        return ["".join(_key(call) for call in generation.tool_calls) for generation in drawn]


def evaluate(model: Path | str, *, cases: int, report: Callable[[str], None]) -> Evaluation:
    """Measure one model; ``cases`` of each kind."""
    held_out = held_out_cases(cases)
    with LocalRuntime.open(model, RuntimeConfig(max_batch_size=_CONCURRENCY)) as runtime:
        evaluator = _Evaluator(runtime, report)
        measures = {
            "demo tools: exact call": evaluator.calls("demo", held_out["demo"]),
            "two-step chains: both calls exact": evaluator.calls("chain", held_out["chain"]),
            "the same in trained wordings: exact call": evaluator.calls("familiar", held_out["familiar"]),
            "the same in trained wordings: both calls exact": evaluator.calls(
                "familiar chain", held_out["familiar chain"]
            ),
            "demo tools: grounded answer": evaluator.answers("answer", held_out["demo"] + held_out["chain"]),
            "known kinds of tool under new names: exact call": evaluator.calls(
                "renamed", held_out["renamed"]
            ),
            "tools defined only in the prompt: exact call": evaluator.calls("invented", held_out["invented"]),
            "any tool: grounded answer": evaluator.answers(
                "answer to any tool", held_out["renamed"] + held_out["invented"]
            ),
            "no tool fits: says so": evaluator.answers("unserved", held_out["unserved"]),
            "small talk: short reply": evaluator.answers("small talk", held_out["small_talk"]),
        }
    return Evaluation(measures, tuple(evaluator.failures))


def draft_hit_rates(
    main: Path | str, draft: Path | str, *, cases: int, report: Callable[[str], None]
) -> dict[int, float]:
    """Share of the main model's first calls that one of λ draft samples equals, by λ (SpecTools §4.3)."""
    held_out = held_out_cases(cases)
    asked = held_out["demo"] + held_out["chain"]
    with LocalRuntime.open(main, RuntimeConfig(max_batch_size=_CONCURRENCY)) as runtime:
        wanted = _Evaluator(runtime, report).first_calls(asked)
    most = max(DRAFT_SAMPLES)
    hits = dict.fromkeys(DRAFT_SAMPLES, 0)
    called = [(case, call) for case, call in zip(asked, wanted, strict=True) if call]
    with LocalRuntime.open(draft, RuntimeConfig(max_batch_size=most)) as runtime:
        evaluator = _Evaluator(runtime, report)
        for case, call in called:
            drawn = evaluator.sampled_calls(case, most)
            for samples in DRAFT_SAMPLES:
                hits[samples] += call in drawn[:samples]
        report(f"draft: {len(called)} cases")
    return {samples: 100 * count / len(called) for samples, count in hits.items()}
