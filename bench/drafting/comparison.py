"""All sides answer the prompts of all sets, taking turns at every prompt; and the figures of that."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ..common.report import Cell, Table
from ..engines import side as engines
from ..engines.llama_cpp import LlamaCpp
from ..engines.openvino_genai import OpenVINOGenAI
from .answering import Answer, AnsweringRuntime
from .prompt_sets import PromptSet
from .sides import OURS, SAM, SUFFIX_DECODING, VANILLA, BaselineSide, Vanilla

GENAI_LOOKUP: Final = "OpenVINO GenAI prompt lookup"
GENAI_DRAFT_MODEL: Final = "OpenVINO GenAI draft model"
LLAMA_CPP_NGRAM: Final = "llama.cpp n-gram map"
_LLAMA_CPP_CONTEXT: Final = 4096
_MOST_DRAFT_TOKENS: Final = 32
"""The longest drafts of any side, nearly always."""
_WARM_UP_TOKENS: Final = 80
_WARM_UP_APP: Final = "warm-up"
"""An app of its own, so that no prompt of a set is in the prefix cache."""


@dataclass
class SetResult:
    """The answers to one set."""

    name: str
    context_heavy: bool
    calls: bool
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    """By side, one for each prompt, in the same order for all."""
    prefill_s: float = 0.0
    """Time to compute all prompts."""

    def ms_per_token(self, side: str) -> float:
        """Return the mean decode time of a token."""
        answers = self.answers[side]
        decoded = sum(each.decoded for each in answers)
        return 1e3 * sum(each.decode_s for each in answers) / max(1, decoded)


@contextmanager
def open_peers(
    directory: str, draft: str | None, gguf: str | None
) -> Iterator[dict[str, engines.EngineProcess]]:
    """Open other engines that draft, with the model in an OpenVINO ``directory``.

    ``draft`` is the directory of a draft model with the same vocabulary, ``gguf`` the model's GGUF file for
    llama.cpp; without them these peers are left out.
    """
    opened: dict[str, tuple[Any, ...]] = {
        GENAI_LOOKUP: (partial(OpenVINOGenAI, prompt_lookup=True), directory)
    }
    if draft is not None:
        opened[GENAI_DRAFT_MODEL] = (partial(OpenVINOGenAI, draft=draft), directory)
    if gguf is not None:
        opened[LLAMA_CPP_NGRAM] = (partial(LlamaCpp, ngram_map=True), gguf, _LLAMA_CPP_CONTEXT)
    with ExitStack() as stack:
        yield {name: stack.enter_context(engines.EngineProcess(*each)) for name, each in opened.items()}


def compare_sides(
    runtime: AnsweringRuntime,
    sets: Sequence[PromptSet],
    sides: Sequence[Vanilla],
    peers: Mapping[str, engines.EngineProcess],
    max_tokens: int,
    progress: Callable[[str], None],
) -> list[SetResult]:
    """Have every side answer every prompt. Each set is an app of its own, without history at its begin."""
    if sets:
        _warm_up(runtime, sets[0], sides)
    results = []
    for each in sets:
        result = SetResult(each.name, each.context_heavy, each.calls)
        for side in sides:
            side.begin_app()
        for number, prompt in enumerate(each.prompts):
            progress(f"{each.name}, prompt {number + 1} of {len(each.prompts)}")
            tokens = runtime.prompt_tokens(prompt)
            result.prefill_s += runtime.prefill(prompt)
            begin = number % len(sides)
            for side in (*sides[begin:], *sides[:begin]):
                answer = runtime.answer(side, prompt, max_tokens)
                result.answers.setdefault(side.name, []).append(answer)
            for name, peer in ({} if each.calls else peers).items():
                asked = engines.Request(tokens, max_tokens, ignore_eos=False)
                result.answers.setdefault(name, []).append(Answer.of_peer(peer.generate(asked)))
        results.append(result)
    return results


def _warm_up(runtime: AnsweringRuntime, prompts: PromptSet, sides: Sequence[Vanilla]) -> None:
    """Verify drafts of every length: a process's first forward pass with a number of tokens takes longer."""
    prompt, every_length = prompts.prompts[0], BaselineSide("warm-up", lambda: _Descending)
    runtime.answer(every_length, prompt, _WARM_UP_TOKENS, app=_WARM_UP_APP, ignore_eos=True)
    for side in sides:
        runtime.answer(side, prompt, 1, app=_WARM_UP_APP)


class _Descending:
    """Predicts one token less each time, so that a forward pass has every number of tokens."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self._token = prompt[0]
        self._left = _MOST_DRAFT_TOKENS

    def append(self, token: int) -> None:
        pass

    def predict(self) -> Sequence[int]:
        self._left = max(0, self._left - 1)
        return [self._token] * (self._left + 1)


@dataclass
class Measured:
    """All that was measured of one model."""

    results: list[SetResult]
    identical: float = 0.0
    no_match_slowdowns: list[float] = field(default_factory=list)
    batch_ratios: list[float] = field(default_factory=list)
    agent_turn_ratio: float | None = None

    def figures(self) -> dict[str, float]:
        """Return the figures; those that were not measured are left out."""
        heavy = [each for each in self.results if each.context_heavy]
        calls = [each for each in self.results if each.calls]
        found = {"tokens_identical": self.identical, "speedup_vs_vanilla": _ratio(heavy, VANILLA)}
        if calls:
            found["tool_call_speedup"] = _ratio(calls, VANILLA)
        if all(GENAI_LOOKUP in each.answers for each in heavy):
            found["ratio_vs_openvino_prompt_lookup"] = _ratio(heavy, GENAI_LOOKUP)
        found["tokens_a_pass_vs_sam"] = _tokens_a_pass(heavy, OURS) / _tokens_a_pass(heavy, SAM)
        found["speed_vs_suffix_rule"] = _ratio(heavy, SUFFIX_DECODING)
        found["slowest_set_vs_vanilla"] = min(
            each.ms_per_token(VANILLA) / each.ms_per_token(OURS) for each in self.results
        )
        found["no_match_slowdown_pct"] = statistics.median(self.no_match_slowdowns)
        found["batch8_drafting_ratio"] = statistics.median(self.batch_ratios)
        if self.agent_turn_ratio is not None:
            found["agent_turn_end_to_end_ratio"] = self.agent_turn_ratio
        return found

    def tables(self) -> tuple[Table, ...]:
        """Return the decode times by set, and the parts of a request."""
        return latency_table(self.results), breakdown_table(self.results)


def _ratio(results: Sequence[SetResult], side: str) -> float:
    """Return our speed over that of a side: the decode times of a token, of which every set counts alike."""
    ours = sum(each.ms_per_token(OURS) for each in results)
    return sum(each.ms_per_token(side) for each in results) / ours


def _tokens_a_pass(results: Sequence[SetResult], side: str) -> float:
    answers = [answer for each in results for answer in each.answers[side]]
    return sum(each.decoded for each in answers) / max(1, sum(each.passes for each in answers))


def latency_table(results: Sequence[SetResult]) -> Table:
    """Figure 10: the decode time of a token by set, in milliseconds."""
    sides = list(dict.fromkeys(side for result in results for side in result.answers))
    return Table(
        title="ms a token by set (sd.npu, Fig. 10)",
        columns=("set", *sides),
        rows=tuple(
            (
                result.name,
                *(round(result.ms_per_token(side), 2) if side in result.answers else None for side in sides),
            )
            for result in results
        ),
    )


def breakdown_table(results: Sequence[SetResult]) -> Table:
    """Figure 13: where the time of a request goes, the mean over a set's prompts, in milliseconds."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for side in (VANILLA, OURS):
            answers = result.answers[side]
            drafting = 1e3 * sum(each.drafting_s for each in answers) / len(answers)
            decoding = 1e3 * sum(each.decode_s for each in answers) / len(answers)
            prefill = 1e3 * result.prefill_s / len(answers)
            rows.append((result.name, side, round(prefill), round(decoding - drafting), round(drafting, 1)))
    return Table(
        title="a request's time in ms (sd.npu, Fig. 13)",
        columns=("set", "side", "prefill", "decode", "drafting"),
        rows=tuple(rows),
    )
