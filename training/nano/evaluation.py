"""How good the nano models are, measured on dialogues whose entities and wordings never occur in training.

Everything is real inference on :class:`~agentrt.runtime.LocalRuntime`: the model answers, its calls are
compared with the expected ones (name and every argument exactly), the expected history goes on, and the
answer must contain every fact of the tool's result word for word, and no markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.calls import ToolCall, canonical_key
from agentrt.runtime.config import RuntimeConfig
from agentrt.runtime.engine.output.generation import Generation
from agentrt.runtime.local.service import LocalRuntime

from .blind import blind_cases
from .cases import Case, held_out_cases
from .markup import MARKUP_TOKENS

_CONCURRENCY = 8
_MOST_TOKENS = 320
DRAFT_SAMPLES = (1, 3, 5, 7, 9)
DRAFT_TEMPERATURE = 0.8


def _keys(calls: Iterable[ToolCall]) -> str:
    return "; ".join(canonical_key(call.name, call.arguments) for call in calls)


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

    def ask(self, prompts: Sequence[tuple[list[dict[str, Any]], list[dict[str, Any]]]]) -> list[Generation]:
        """Greedy generations of ``(messages, tools)``, several at a time."""
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            return list(
                pool.map(
                    lambda prompt: self._runtime.generate(
                        prompt[0], tools=prompt[1], max_tokens=_MOST_TOKENS, temperature=0.0
                    ),
                    prompts,
                )
            )

    def _note(self, kind: str, request: str, expected: str, generation: Generation) -> None:
        got = _keys(generation.tool_calls) or generation.text
        self.failures.append(Failure(kind, request, expected, got))

    def calls(self, kind: str, cases: Sequence[Case]) -> float:
        """Share of cases in which every call of the turn is exact."""
        wanted = [(case, done) for case in cases for done in range(len(case.turn.messages))]
        right = {id(case) for case in cases}
        generations = self.ask([(case.messages(done), case.tools) for case, done in wanted])
        for (case, done), generation in zip(wanted, generations, strict=True):
            steps = case.turn.messages[done]
            expected = _keys(ToolCall(step.name, step.arguments) for step in steps)
            if _keys(generation.tool_calls) != expected:
                right.discard(id(case))
                self._note(kind, case.turn.request, expected, generation)
        self._report(f"{kind}: {len(cases)} cases")
        return 100 * len(right) / len(cases)

    def answers(self, kind: str, cases: Sequence[Case]) -> float:
        """Share of cases whose answer calls nothing, contains every fact, and shows no markup."""
        generations = self.ask([(case.messages(len(case.turn.messages)), case.tools) for case in cases])
        right = 0
        for case, generation in zip(cases, generations, strict=True):
            grounded = all(fact in generation.text for fact in case.turn.facts)
            if grounded and not generation.tool_calls and not shows_markup(generation.text):
                right += 1
            else:
                self._note(kind, case.turn.request, case.turn.answer, generation)
        self._report(f"{kind}: {len(cases)} cases")
        return 100 * right / len(cases)

    def blind(self) -> dict[str, float]:
        """Share of right cases of each kind in the blind set, and of all."""
        cases = blind_cases()
        marks: dict[str, list[bool]] = {}
        for case, generation in zip(
            cases, self.ask([(case.messages, case.tools) for case in cases]), strict=True
        ):
            called = tuple((call.name, dict(call.arguments)) for call in generation.tool_calls)
            right = case.right(called, generation.text)
            marks.setdefault(case.kind, []).append(right)
            if not right:
                self._note(f"blind {case.kind}", case.shown, str(case.calls or case.facts), generation)
        self._report(f"blind set: {len(cases)} cases")
        shares = {f"blind set, {kind}": 100 * sum(each) / len(each) for kind, each in marks.items()}
        total = [mark for each in marks.values() for mark in each]
        return {**shares, f"blind set, all {len(total)}": 100 * sum(total) / len(total)}

    def first_calls(self, cases: Sequence[Case]) -> list[str]:
        """What the model calls first in each case; empty text if it calls nothing."""
        generations = self.ask([(case.messages(0), case.tools) for case in cases])
        return [_keys(generation.tool_calls) for generation in generations]

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
        return [_keys(generation.tool_calls) for generation in drawn]


def shows_markup(text: str) -> bool:
    """Whether markup of calls and results is in what a user reads."""
    return any(token in text for token in MARKUP_TOKENS)


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
            "several calls at once: all exact": evaluator.calls("several", held_out["several"]),
            "several calls at once: grounded answer": evaluator.answers(
                "answer to several", held_out["several"]
            ),
            "no tool fits: says so": evaluator.answers("unserved", held_out["unserved"]),
            "small talk: short reply": evaluator.answers("small talk", held_out["small_talk"]),
            **evaluator.blind(),
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
