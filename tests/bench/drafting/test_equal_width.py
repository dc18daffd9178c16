"""The replay of answers counts what the engine would."""

from __future__ import annotations

import pytest

from agentrt.bench.common.served_runtime import EXACT
from agentrt.bench.drafting.answering import AnsweringRuntime
from agentrt.bench.drafting.baselines.suffix_automaton import SuffixAutomatonDecoding
from agentrt.bench.drafting.equal_width import replay, sam_tokens_a_pass
from agentrt.bench.drafting.prompt_sets import Prompt
from agentrt.bench.drafting.sides import BaselineSide, Vanilla

PROMPT = Prompt(({"role": "user", "content": "Say a a a a a a, then b b b b, then a a a a and b b b b."},))
TOKENS = 48


def test_passes_of_an_answer_that_repeats_its_prompt() -> None:
    answer = [1, 2, 3, 4, 5, 6, 7, 8]
    sam = SuffixAutomatonDecoding(4)
    counted = replay(sam([0, *answer]), answer, 20)
    # Behind 1 nothing is drafted (a match of one token), then 3 4 5 6 are accepted and 7 is sampled.
    assert (counted.tokens, counted.passes) == (7, 3)
    assert counted.tokens_a_pass == pytest.approx(7 / 3)
    nothing = replay(SuffixAutomatonDecoding(4)([90, 91]), answer, 20)
    assert (nothing.passes, nothing.verified) == (7, 0)


def test_tokens_a_pass_between_two_widths() -> None:
    answers = [([0, *range(1, 60)], list(range(1, 60)))]
    low, middle, high = (sam_tokens_a_pass([answers], 100, verified) for verified in (1.0, 1.5, 2.0))
    assert low < middle < high
    assert sam_tokens_a_pass([answers], 100, 0.0) == 1.0
    assert sam_tokens_a_pass([answers], 100, 1e9) == pytest.approx(58 / 3)


@pytest.mark.real_model
def test_the_replay_counts_what_the_engine_does() -> None:
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    with LocalRuntime.open("nano", RuntimeConfig(**EXACT)) as opened:
        runtime = AnsweringRuntime(opened)
        recorded = runtime.answer(Vanilla(), PROMPT, TOKENS, ignore_eos=True)
        side = BaselineSide("SAM", lambda: SuffixAutomatonDecoding(8))
        answer = runtime.answer(side, PROMPT, TOKENS, ignore_eos=True)
        prompt = runtime.prompt_tokens(PROMPT)
    assert answer.token_ids == recorded.token_ids
    assert answer.verified > 0
    replayed = replay(SuffixAutomatonDecoding(8)(prompt), recorded.token_ids, TOKENS)
    assert (replayed.tokens, replayed.passes, replayed.verified) == (
        answer.decoded, answer.passes, answer.verified
    )  # fmt: skip
