"""All sides answer the prompts of all sets, taking turns at every prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .answering import Answer, AnsweringRuntime
from .peers import Peer
from .prompt_sets import PromptSet
from .sides import VANILLA, BaselineSide, Side

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
    prompts: list[list[int]] = field(default_factory=list)
    """The prompts' token ids."""
    prefill_s: float = 0.0
    """Time to compute all prompts."""

    def ms_per_token(self, side: str) -> float:
        """Return the mean decode time of a token."""
        answers = self.answers[side]
        decoded = sum(each.decoded for each in answers)
        return 1e3 * sum(each.decode_s for each in answers) / max(1, decoded)

    def speedup(self, side: str, over: str = VANILLA) -> float:
        """Return how many times as fast as ``over`` a side decodes."""
        return self.ms_per_token(over) / self.ms_per_token(side)

    def speedups(self, side: str) -> list[float]:
        """Return the same of each prompt, over vanilla, without those whose answer is a single token."""
        pairs = zip(self.answers[VANILLA], self.answers[side], strict=True)
        return [
            (vanilla.decode_s / vanilla.decoded) / (other.decode_s / other.decoded)
            for vanilla, other in pairs
            if vanilla.decoded and other.decoded
        ]

    def tokens_a_pass(self, side: str) -> float:
        """Return the tokens of a forward pass behind prefill: the accepted ones and the sampled one."""
        answers = self.answers[side]
        return sum(each.decoded for each in answers) / max(1, sum(each.passes for each in answers))

    def verified_a_pass(self, side: str) -> float:
        """Return the draft tokens of a forward pass."""
        answers = self.answers[side]
        return sum(each.verified for each in answers) / max(1, sum(each.passes for each in answers))

    def drafting_ms_a_pass(self, side: str) -> float:
        """Return the time in the drafters for each forward pass."""
        answers = self.answers[side]
        passes = max(1, sum(each.passes for each in answers))
        return 1e3 * sum(each.drafting_s for each in answers) / passes

    def equal_answers(self, side: str) -> int:
        """Return how many answers have exactly vanilla's tokens."""
        pairs = zip(self.answers[VANILLA], self.answers[side], strict=True)
        return sum(ours.token_ids == other.token_ids for ours, other in pairs)


def compare_sides(
    runtime: AnsweringRuntime,
    sets: Sequence[PromptSet],
    sides: Sequence[Side],
    peers: Mapping[str, Peer],
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
            result.prompts.append(tokens)
            result.prefill_s += runtime.prefill(prompt)
            begin = number % len(sides)
            for side in (*sides[begin:], *sides[:begin]):
                answer = runtime.answer(side, prompt, max_tokens)
                result.answers.setdefault(side.name, []).append(answer)
            for name, peer in ({} if each.calls else peers).items():
                result.answers.setdefault(name, []).append(peer.answer(tokens, max_tokens))
        results.append(result)
    return results


def _warm_up(runtime: AnsweringRuntime, prompts: PromptSet, sides: Sequence[Side]) -> None:
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

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        pass

    def append(self, token: int) -> None:
        pass

    def predict(self) -> Sequence[int]:
        self._left = max(0, self._left - 1)
        return [self._token] * (self._left + 1)
