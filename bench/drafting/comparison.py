"""All sides answer the prompts of all sets, taking turns at every prompt; and the figures of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Final

from agentrt.calls import ToolCall

from ..common.estimates import Estimate, bootstrap, mean, median, share
from ..common.report import Cell, Table
from ..engines import side as engines
from ..engines.llama_cpp import LLAMA_CPP, LLAMA_CPP_NATIVE, llama_cpp_builds
from ..engines.openvino_genai import OpenVINOGenAI, groups_of_agentrt
from .answering import Answer, AnsweringRuntime
from .prompt_sets import Prompt, PromptSet, Source
from .sides import (
    CALIBRATED,
    OURS,
    REUSING,
    SUFFIX_DECODING,
    VANILLA,
    BaselineSide,
    Ours,
    Vanilla,
)

GENAI_LOOKUP: Final = "OpenVINO GenAI prompt lookup"
"""At its default activation groups."""
GENAI_LOOKUP_EQUAL: Final = "OpenVINO GenAI prompt lookup, our groups"
"""At the activation groups that agentrt chooses for the model, where they are others."""
GENAI_DRAFT_MODEL: Final = "OpenVINO GenAI draft model"
LLAMA_CPP_NGRAM: Final = {LLAMA_CPP: "llama.cpp n-gram map", LLAMA_CPP_NATIVE: "llama.cpp n-gram map, native"}
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
    source: Source
    context_heavy: bool
    calls: bool
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    """By side, one for each prompt, in the same order for all."""
    predicted: list[Answer] = field(default_factory=list)
    """Ours to prompts of calls, when the calls of plain decoding were submitted as predicted ones."""
    mispredicted: list[Answer] = field(default_factory=list)
    """The same with other arguments."""
    again: list[Answer] = field(default_factory=list)
    """Ours to the same prompts a second time, when all first answers are history."""
    prefill_s: float = 0.0
    """Time to compute all prompts."""
    calibrated_prefill_s: float = 0.0
    """The same with the logits of all their tokens."""

    def ms_per_token(self, side: str) -> Estimate:
        """Return the mean decode time of a token."""
        return bootstrap(self.answers[side], _ms_per_token)


def _ms_per_token(answers: Iterable[Answer]) -> float:
    found = list(answers)
    return 1e3 * sum(each.decode_s for each in found) / max(1, sum(each.decoded for each in found))


@contextmanager
def open_peers(
    directory: str, draft: str | None, gguf: str | None
) -> Iterator[dict[str, engines.EngineProcess]]:
    """Open other engines that draft, with the model in an OpenVINO ``directory``.

    ``draft`` is the directory of a draft model with the same vocabulary, ``gguf`` the model's GGUF file for
    llama.cpp; without them these peers are left out.
    """
    lookup = partial(OpenVINOGenAI, prompt_lookup=True)
    opened: dict[str, tuple[Any, ...]] = {GENAI_LOOKUP: (lookup, directory)}
    for group in groups_of_agentrt(directory).values():
        opened[GENAI_LOOKUP_EQUAL] = (lookup, directory, {"dynamic_quantization_group_size": group})
    if draft is not None:
        opened[GENAI_DRAFT_MODEL] = (partial(OpenVINOGenAI, draft=draft), directory)
    for build, make in llama_cpp_builds().items() if gguf is not None else ():
        opened[LLAMA_CPP_NGRAM[build]] = (partial(make, ngram_map=True), gguf, _LLAMA_CPP_CONTEXT)
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
        result = SetResult(each.name, each.source, each.context_heavy, each.calls)
        for side in sides:
            side.begin_app()
        predicting = (Ours(), Ours())
        for number, prompt in enumerate(each.prompts):
            progress(f"{each.name}, prompt {number + 1} of {len(each.prompts)}")
            tokens = runtime.prompt_tokens(prompt)
            result.prefill_s += runtime.prefill(prompt)
            for side in sides:
                if side.calibrates:
                    result.calibrated_prefill_s += runtime.answer(side, prompt, 1).total_s
            begin = number % len(sides)
            for side in (*sides[begin:], *sides[:begin]):
                answer = runtime.answer(side, prompt, max_tokens)
                result.answers.setdefault(side.name, []).append(answer)
            for name, peer in ({} if each.calls else peers).items():
                asked = engines.Request(tokens, max_tokens, ignore_eos=False)
                result.answers.setdefault(name, []).append(Answer.of_peer(peer.generate(asked)))
            if each.calls:
                _answer_predicted(runtime, predicting, result, prompt, max_tokens)
        ours = [side for side in sides if side.name == OURS]
        result.again = [runtime.answer(side, prompt, max_tokens) for side in ours for prompt in each.prompts]
        results.append(result)
    return results


def _answer_predicted(
    runtime: AnsweringRuntime,
    sides: tuple[Ours, Ours],
    result: SetResult,
    prompt: Prompt,
    max_tokens: int,
) -> None:
    """Answer a prompt of calls with the calls predicted that it is answered by, and with others.

    Each is done by one of the ``sides``, which are apps of their own.
    """
    right = result.answers[VANILLA][-1].calls
    wrong = [ToolCall(call.name, _other_value(call.arguments)) for call in right]
    of_sides = ((result.predicted, right), (result.mispredicted, wrong))
    for side, (answers, predicted) in zip(sides, of_sides, strict=True):
        answers.append(runtime.answer_predicted(side, prompt, max_tokens, predicted))


def _other_value(value: Any) -> Any:
    """Return JSON of the same form with other values."""
    if isinstance(value, Mapping):
        return {name: _other_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_other_value(each) for each in value]
    if isinstance(value, str):
        return f"other {value}"
    return value if value is None else not value if isinstance(value, bool) else value + 1


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
    identical: Estimate | None = None
    undrafted_slowdowns: list[float] = field(default_factory=list)
    batch_ratios: list[float] = field(default_factory=list)
    agent_turns: list[tuple[float, float]] = field(default_factory=list)
    """Seconds of the turns of each conversation, without drafts and with them."""

    def figures(self) -> dict[str, Estimate]:
        """Return the figures; those that were not measured are left out."""
        found: dict[str, Estimate] = {}
        if self.identical is not None:
            found["tokens_identical"] = self.identical
        answers = [pair for each in self.results for pair in _pairs(each, VANILLA)]
        found["tokens_identical_at_default_precision"] = share(
            sum(ours.token_ids == plain.token_ids for ours, plain in answers), len(answers)
        )
        heavy = [each for each in self.results if each.context_heavy]
        for source in Source:
            if of_source := [each for each in heavy if each.source is source]:
                name = f"speedup_vs_vanilla_{source.replace(' ', '_')}_sets"
                found[name] = _speed_ratio(of_source, VANILLA)
        public = [each for each in heavy if each.source is not Source.OWN]
        if public:
            found["speed_vs_suffix_rule"] = _speed_ratio(public, SUFFIX_DECODING)
            found |= _from_logits(public)
            if lookups := [each for each in (GENAI_LOOKUP, GENAI_LOOKUP_EQUAL) if each in public[0].answers]:
                found["ratio_vs_openvino_prompt_lookup"] = _speed_ratio(public, *lookups)
        if calls := [each for each in self.results if each.calls]:
            found["tool_call_speedup"] = _speed_ratio(calls, VANILLA)
            for name, of_set in _PREDICTED.items():
                pairs = [
                    pair for each in calls for pair in zip(of_set(each), each.answers[VANILLA], strict=True)
                ]
                found[f"{name}_call_speedup"] = bootstrap(pairs, _second_over_first)
                found[f"{name}_call_tokens_identical"] = share(
                    sum(ours.token_ids == plain.token_ids for ours, plain in pairs), len(pairs)
                )
        found["slowest_set_vs_vanilla"] = min(
            (_speed_ratio([each], VANILLA) for each in self.results), key=lambda ratio: ratio.value
        )
        found["recurring_request_speedup"] = _recurring_speedup(self.results)
        if self.undrafted_slowdowns:
            found["undrafted_slowdown_pct"] = median(self.undrafted_slowdowns)
        if self.batch_ratios:
            found["batch8_drafting_ratio"] = median(self.batch_ratios)
        if self.agent_turns:
            found["agent_turn_end_to_end_ratio"] = bootstrap(self.agent_turns, _ratio_of_sums)
        return found

    def tables(self) -> tuple[Table, ...]:
        """Return the decode times by set, and the parts of a request."""
        return latency_table(self.results), breakdown_table(self.results)


_PREDICTED: Final[dict[str, Callable[[SetResult], list[Answer]]]] = {
    "predicted": attrgetter("predicted"),
    "mispredicted": attrgetter("mispredicted"),
}


def _from_logits(results: Sequence[SetResult]) -> dict[str, Estimate]:
    """Return what drafts from logits add to ours, and what the logits of prompts cost."""
    found = {
        figure: _speed_ratio(results, OURS, of=side)
        for figure, side in (("calibration_speedup", CALIBRATED), ("reuse_speedup", REUSING))
        if side in results[0].answers
    }
    if CALIBRATED in results[0].answers:
        prefills = [(each.calibrated_prefill_s, each.prefill_s) for each in results]
        found["calibration_prefill_ratio"] = bootstrap(prefills, _ratio_of_sums)
    return found


def _second_over_first(pairs: Sequence[tuple[Answer, Answer]]) -> float:
    """Return the speed of the first answers over that of the second ones."""
    return _ms_per_token(second for _, second in pairs) / _ms_per_token(first for first, _ in pairs)


def _pairs(result: SetResult, side: str) -> list[tuple[Answer, Answer]]:
    """Return our answers and those of a side to the same prompts."""
    return list(zip(result.answers[OURS], result.answers[side], strict=True))


@dataclass(frozen=True, slots=True)
class _OfPrompt:
    """The answers to one prompt of a set."""

    set: str
    ours: Answer
    others: tuple[Answer, ...]
    """Those of the sides that ours is compared with."""


def _speed_ratio(results: Sequence[SetResult], *sides: str, of: str = OURS) -> Estimate:
    """Return the speed ``of`` a side over that of the fastest of ``sides``, by decode times of a token.

    Every set counts alike; the interval is over prompts.
    """
    prompts = [
        _OfPrompt(each.name, ours, tuple(others))
        for each in results
        for ours, *others in zip(*(each.answers[side] for side in (of, *sides)), strict=True)
    ]
    return bootstrap(prompts, _fastest_over_ours)


def _fastest_over_ours(prompts: Sequence[_OfPrompt]) -> float:
    by_set: dict[str, list[_OfPrompt]] = {}
    for each in prompts:
        by_set.setdefault(each.set, []).append(each)
    ours = sum(_ms_per_token(each.ours for each in of_set) for of_set in by_set.values())
    others = (
        sum(_ms_per_token(each.others[side] for each in of_set) for of_set in by_set.values())
        for side in range(len(prompts[0].others))
    )
    return min(others) / ours


def _recurring_speedup(results: Sequence[SetResult]) -> Estimate:
    """Return our speed on requests that come a second time over that on their first time."""
    answers = [pair for each in results for pair in zip(each.answers[OURS], each.again, strict=True)]

    return bootstrap([(again, first) for first, again in answers], _second_over_first)


def _ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(first for first, _ in pairs) / sum(second for _, second in pairs)


def latency_table(results: Sequence[SetResult]) -> Table:
    """Figure 10: the decode time of a token by set, in milliseconds, and the side with the least."""
    sides = list(dict.fromkeys(side for result in results for side in result.answers))

    def row(result: SetResult) -> tuple[Cell, ...]:
        times = {side: result.ms_per_token(side) for side in sides if side in result.answers}
        fastest = min(times, key=lambda side: times[side].value)
        return result.name, result.source, *(times.get(side) for side in sides), fastest

    return Table(
        title="ms a token by set (sd.npu, Fig. 10)",
        columns=("set", "texts", *sides, "fastest"),
        rows=tuple(map(row, results)),
    )


_BROKEN_DOWN: Final = (VANILLA, OURS, CALIBRATED, REUSING)


def breakdown_table(results: Sequence[SetResult]) -> Table:
    """Figure 13: where the time of a request goes, the mean over a set's prompts, in milliseconds."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for side in (each for each in _BROKEN_DOWN if each in result.answers):
            answers = result.answers[side]
            prefill_s = result.calibrated_prefill_s if side == CALIBRATED else result.prefill_s
            prefill = round(1e3 * prefill_s / len(answers))
            decode = mean([1e3 * (each.decode_s - each.drafting_s) for each in answers])
            drafting = mean([1e3 * each.drafting_s for each in answers])
            passes = sum(each.decoded for each in answers) / max(1, sum(each.passes for each in answers))
            rows.append((result.name, side, prefill, decode, drafting, round(passes, 2)))
    return Table(
        title="a request's time in ms (sd.npu, Fig. 13)",
        columns=("set", "side", "prefill", "decode", "drafting", "tokens a pass"),
        rows=tuple(rows),
    )
