from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.drafting.app_history import AcceptanceModel, Evidence

STEADY = Evidence(8, 4, 4)
CHANCE = Evidence(1, 1, 1)


def evidences() -> st.SearchStrategy[Evidence]:
    totals = st.integers(1, 10_000)
    return totals.flatmap(
        lambda total: st.builds(Evidence, st.integers(1, 10_000), st.integers(1, total), st.just(total))
    )


@given(st.lists(st.tuples(evidences(), st.booleans()), max_size=200), evidences())
def test_whatever_is_learned_a_probability_stays_one(
    learned: list[tuple[Evidence, bool]], evidence: Evidence
) -> None:
    model = AcceptanceModel()
    for each, accepted in learned:
        model.learn(each, accepted=accepted)
    assert 0.0 <= model.probability(evidence) <= 1.0


@given(st.lists(st.tuples(evidences(), st.booleans()), max_size=50), st.integers(1, 8))
def test_longer_and_more_unanimous_matches_are_never_less_likely(
    learned: list[tuple[Evidence, bool]], total: int
) -> None:
    model = AcceptanceModel()
    for each, accepted in learned:
        model.learn(each, accepted=accepted)
    by_length = [model.probability(Evidence(length, total, total)) for length in range(1, 64)]
    by_count = [model.probability(Evidence(4, count, total)) for count in range(1, total + 1)]
    assert by_length == sorted(by_length)
    assert by_count == sorted(by_count)


def test_a_model_without_experience_trusts_long_matches_and_doubts_short_ones() -> None:
    model = AcceptanceModel()
    assert model.probability(STEADY) > 0.85
    assert 0.2 < model.probability(CHANCE) < 0.5
    assert model.probability(Evidence(1, 1, 8)) < 0.1


def test_text_in_which_nothing_repeats_shows_soon() -> None:
    model, probabilities = AcceptanceModel(), []
    for _ in range(100):
        probabilities.append(model.probability(CHANCE))
        model.learn(CHANCE, accepted=False)
    assert all(later < earlier for earlier, later in pairwise(probabilities))
    assert probabilities[20] < probabilities[0] / 2
    assert probabilities[-1] < 0.06


def test_what_was_learned_is_unlearned() -> None:
    model = AcceptanceModel()
    for _ in range(300):
        model.learn(STEADY, accepted=False)
    doubted = model.probability(STEADY)
    for _ in range(300):
        model.learn(STEADY, accepted=True)
    assert doubted < 0.1
    assert model.probability(STEADY) > 0.9


def test_few_places_are_told_from_many() -> None:
    model = AcceptanceModel()
    few, many = Evidence(4, 1, 1), Evidence(4, 4, 4)
    for _ in range(400):
        model.learn(few, accepted=False)
        model.learn(many, accepted=True)
    assert model.probability(few) < 0.4 < 0.6 < model.probability(many)
