"""What the model in the package gets right of cases that nothing was trained on."""

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from training.nano.blind import BlindCase, blind_cases
from training.nano.evaluation import shows_markup

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def answers() -> list[tuple[BlindCase, bool, str]]:
    """Each case, whether the model gets it right, and the text it writes."""
    exact = RuntimeConfig(
        memory_bytes=32 * 2**20, inference_precision="f32", kv_cache_precision="f32", threads=1
    )
    answered = []
    with LocalRuntime.open("nano", exact) as runtime:
        for case in blind_cases():
            generation = runtime.generate(case.messages, tools=case.tools, max_tokens=160, temperature=0.0)
            calls = tuple((call.name, dict(call.arguments)) for call in generation.tool_calls)
            answered.append((case, case.right(calls, generation.text), generation.text))
    return answered


def test_it_gets_the_blind_set_right(answers: list[tuple[BlindCase, bool, str]]) -> None:
    wrong = [case.shown for case, right, _ in answers if not right]
    assert len(wrong) <= 0.05 * len(answers), wrong


def test_it_never_shows_markup(answers: list[tuple[BlindCase, bool, str]]) -> None:
    assert [(case.shown, text) for case, _, text in answers if shows_markup(text)] == []


def test_it_answers_the_first_example_whatever_the_tool_returns(
    answers: list[tuple[BlindCase, bool, str]],
) -> None:
    # A newcomer changes what the tool of the README's first example returns.
    asked = [each for each in answers if each[0].shown.startswith("What is the weather in Oslo? / ")]
    assert len(asked) >= 20
    assert [case.shown for case, right, _ in asked if not right] == []
