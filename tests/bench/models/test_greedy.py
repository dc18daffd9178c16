from __future__ import annotations

import pytest

from agentrt.bench.models.greedy import PROMPTS, GreedyAnswer, _compare, compare_greedy_answers


@pytest.mark.parametrize(
    ("ours", "theirs", "characters", "equal"),
    [("abc", "abc", 3, 3), ("abc", "abd", 3, 2), ("ab", "abc", 3, 2), ("", "a", 1, 0), ("", "", 0, 0)],
)
def test_answers_are_equal_to_their_ends_or_not(ours: str, theirs: str, characters: int, equal: int) -> None:
    found = _compare("prompt", ours, theirs)
    assert found == GreedyAnswer("prompt", characters, equal)
    assert found.is_equal is (ours == theirs)


@pytest.mark.bench
def test_the_demonstration_model_answers_as_in_openvino_genai(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    cache = str(tmp_path_factory.mktemp("cache"))
    found = compare_greedy_answers("nano", cache, 3, 12, lambda line: None)
    assert [each.prompt for each in found] == list(PROMPTS[:3])
    assert all(each.is_equal and each.characters for each in found)
