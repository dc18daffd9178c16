"""The sides on a real engine: what they verify, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentrt.bench.common.served_runtime import EXACT
from agentrt.bench.drafting.answering import DRAFTS, AnsweringRuntime
from agentrt.bench.drafting.prompt_sets import Prompt
from agentrt.bench.drafting.sides import Ours, Vanilla, baselines

pytestmark = pytest.mark.real_model

PROMPT = Prompt(({"role": "user", "content": "roof garden train roof garden train roof garden train roof"},))
OTHER = Prompt(({"role": "user", "content": "Hello!"},))
TOKENS = 32


@pytest.fixture(scope="module")
def runtime() -> Iterator[AnsweringRuntime]:
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    with LocalRuntime.open("nano", RuntimeConfig(**EXACT, **DRAFTS)) as opened:
        yield AnsweringRuntime(opened)


def test_every_side_has_the_same_tokens(runtime: AnsweringRuntime) -> None:
    vanilla = runtime.answer(Vanilla(), PROMPT, TOKENS, ignore_eos=True)
    assert (vanilla.passes, vanilla.verified, vanilla.decoded) == (TOKENS - 1, 0, TOKENS - 1)
    for side in (*baselines(), Ours()):
        answer = runtime.answer(side, PROMPT, TOKENS, ignore_eos=True)
        assert answer.token_ids == vanilla.token_ids, side.name
        assert answer.passes + answer.verified >= answer.decoded


def test_an_answer_is_history_for_the_next_one_of_the_same_app_only(runtime: AnsweringRuntime) -> None:
    ours = Ours()
    ours.verifies_all = True  # else the number of passes depends on their times
    first, second = (runtime.answer(ours, OTHER, TOKENS, ignore_eos=True) for _ in range(2))
    assert second.passes < first.passes
    ours.begin_app()
    assert runtime.answer(ours, OTHER, TOKENS, ignore_eos=True).passes == first.passes


def test_a_prompt_is_computed_once(runtime: AnsweringRuntime) -> None:
    assert runtime.prefill(PROMPT) > 0
    assert len(runtime.prompt_tokens(PROMPT)) > 8
    assert runtime.answer(Ours(), PROMPT, 1).decoded == 0


def test_calls_held_to_a_grammar_have_the_same_tokens_on_every_side(runtime: AnsweringRuntime) -> None:
    function = {
        "name": "get_weather_of_the_coming_days",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    asked = {"role": "user", "content": "What is the weather in Oslo?"}
    prompt = Prompt((asked,), ({"type": "function", "function": function},))
    vanilla = runtime.answer(Vanilla(), prompt, TOKENS)
    assert vanilla.passes == vanilla.decoded > 8
    for side in (*baselines(), Ours()):
        assert runtime.answer(side, prompt, TOKENS).token_ids == vanilla.token_ids, side.name
