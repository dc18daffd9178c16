"""Eqs. 1-3 and Lemma 1 hold for the code as the paper proves them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentrt.errors import ConfigurationError
from agentrt.perfmodel import EngineTimes, EngineTurn, TurnTimes, saved_seconds

seconds = st.floats(1e-3, 1e3)
rates = st.floats(0, 1)
times = st.builds(TurnTimes, seconds, seconds, seconds)
paying = times.filter(lambda t: t.draft < 0.99 * t.generation)


def test_equation_1_by_hand() -> None:
    t = TurnTimes(generation=2.0, draft=0.5, tool=3.0)
    assert t.standard(10) == 50.0
    assert t.speculative(0.4, 10) == pytest.approx(10 * (0.4 * 3.5 + 0.6 * 5.0))
    assert TurnTimes(2.0, 0.5, 1.0).speculative(1.0) == 2.0  # the draft and the tool hide behind the model


@given(times, rates)
def test_the_speedup_is_below_2_and_below_its_bound(t: TurnTimes, claim_rate: float) -> None:
    assume(t.draft <= t.generation)
    assert t.speedup(claim_rate) <= t.speedup_bound() * (1 + 1e-9)
    assert t.speedup_bound() < 2


@given(paying, rates, rates)
def test_the_speedup_grows_with_the_claim_rate(t: TurnTimes, one: float, other: float) -> None:
    assume(abs(one - other) > 1e-6)
    low, high = sorted((one, other))
    assert t.speedup(low) < t.speedup(high)


@given(times, rates)
def test_it_pays_exactly_if_equation_3_says_so(t: TurnTimes, claim_rate: float) -> None:
    assume(not 0 < claim_rate < 1e-6)
    assume(abs(t.draft - t.generation) > 1e-3 * t.generation)
    if t.draft + t.tool >= t.generation:  # the case of Eq. 3; below it speculation always pays
        assert (t.saved_share(claim_rate) > 0) == t.pays(claim_rate)


@given(seconds, st.floats(0.001, 0.5), seconds)
def test_it_pays_most_where_tool_and_generation_take_equally_long(
    generation: float, draft_share: float, tool: float
) -> None:
    draft = draft_share * generation
    best = TurnTimes(generation, draft, generation - draft)
    assert TurnTimes(generation, draft, tool).speedup(1.0) <= best.speedup(1.0) * (1 + 1e-9)


@given(times, rates)
def test_the_saved_share_follows_from_the_speedup(t: TurnTimes, claim_rate: float) -> None:
    assert t.saved_share(claim_rate) == pytest.approx(1 - 1 / t.speedup(claim_rate))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan")])
def test_invalid_times_are_refused(bad: float) -> None:
    with pytest.raises(ConfigurationError, match="generation"):
        TurnTimes(bad, 1.0, 1.0)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_claim_rate_is_a_share(rate: float) -> None:
    with pytest.raises(ConfigurationError, match="claim_rate"):
        TurnTimes(1.0, 0.1, 1.0).speculative(rate)


@given(times)
def test_a_claimed_call_saves_what_equation_1_says(t: TurnTimes) -> None:
    assume(t.draft <= t.generation)
    saved = saved_seconds(t.generation - t.draft, t.tool)
    assert saved == pytest.approx(t.standard() - t.speculative(1.0), rel=1e-9, abs=1e-9)
    assert t.speedup(1.0) == pytest.approx(t.standard() / (t.standard() - saved))


def test_a_draft_that_comes_after_the_answer_saves_nothing() -> None:
    assert saved_seconds(-1.0, 2.0) == 0.0


counts = st.integers(0, 2000)
engine_turns = st.builds(EngineTurn, counts, st.integers(1, 200), counts, st.floats(0, 10))
engines = st.builds(
    EngineTimes,
    st.floats(0, 1),
    st.floats(0, 0.01),
    st.floats(0, 0.1),
    st.integers(1, 5000),
    st.lists(engine_turns, min_size=1, max_size=8),
)


def test_equations_4_to_6_by_hand() -> None:
    turns = (EngineTurn(100, 20, 30, 2.0), EngineTurn(50, 10, 40, 1.0))
    engine = EngineTimes(overhead=0.5, prefill=0.001, decode=0.01, prompt_tokens=1000, turns=turns)
    assert engine.vanilla() == pytest.approx(2.0 + 0.001 * (1000 + 1050) + 0.01 * 180 + 3.0)
    assert engine.cached() == pytest.approx(2.0 + 0.001 * 1100 + 0.01 * 180 + 3.0)
    assert engine.speculative(1.0) == pytest.approx(0.001 * 1100 + 0.01 * (2 + 150))


@given(engines)
def test_without_claims_equation_6_is_equation_5(engine: EngineTimes) -> None:
    assert engine.speculative(0.0) == pytest.approx(engine.cached())


@given(engines, rates, rates)
def test_every_claim_saves_engine_time(engine: EngineTimes, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert engine.speculative(high) <= engine.speculative(low) * (1 + 1e-9)


def test_invalid_engine_times_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be"):
        EngineTurn(0, 0, 0, 1.0)
    with pytest.raises(ConfigurationError, match="turn"):
        EngineTimes(0.1, 0.1, 0.1, 10, [])
    with pytest.raises(ConfigurationError, match="claim_rate"):
        EngineTimes(0.1, 0.1, 0.1, 10, [EngineTurn(0, 1, 0, 0.0)]).speculative(2.0)
