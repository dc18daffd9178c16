"""The attainment of Eq. 6 falls with everything that makes the engine side worse."""

from __future__ import annotations

import dataclasses

import pytest

from agentrt.bench.toolcache.agents import Done
from agentrt.bench.toolcache.figures import Case, Repetition, attainments, predictions
from agentrt.bench.toolcache.sides import CLIENT_SIDE, ENGINE_SIDE, PREFIX_CACHED
from agentrt.bench.toolcache.tasks import Task
from agentrt.calls import ToolCall

REASONING = 801
DECODE_S = 0.001
CALL_TOKENS = 41
TOOL_S = 0.2
ROUND_TRIP_S = 0.004
CALL_S = DECODE_S * CALL_TOKENS
REST_S = 0.01


def done(call_s: float, tool_s: float, round_trip_s: float, *, in_engine: bool = False) -> Done:
    """A task whose parts take these times; the reasoning takes 0.8 s."""
    reasoned = 0.02 + DECODE_S * (REASONING - 1)
    return Done(
        first_s=0.02,
        reasoned_s=reasoned,
        elapsed_s=reasoned + call_s + tool_s + round_trip_s + REST_S,
        prompt_tokens=100,
        first_tokens=REASONING + CALL_TOKENS,
        in_engine=in_engine,
    )


CACHED = done(CALL_S, TOOL_S, ROUND_TRIP_S)
CLIENT = done(CALL_S, 0.0, ROUND_TRIP_S)
ENGINE = done(DECODE_S, 0.0, 0.0, in_engine=True)


def attained(engine: Done, tool_s: float = TOOL_S, reasoning: int = REASONING) -> dict[str, float]:
    task = Task("go", ToolCall("cd", {}), "there", tool_s, [], reasoning)
    sides = {PREFIX_CACHED: CACHED, CLIENT_SIDE: CLIENT, ENGINE_SIDE: engine}
    measured = Repetition([task], {Case(side): [one] for side, one in sides.items()})
    return attainments(measured, predictions(measured, ROUND_TRIP_S))


def test_an_engine_that_does_what_eq_6_says_attains_all_of_it() -> None:
    assert attained(ENGINE) == {
        "eq6_attainment": pytest.approx(1.0),
        "eq6_attainment_over_client_side": pytest.approx(1.0),
    }


@pytest.mark.parametrize(
    ("worse", "over_client"),
    [
        pytest.param(done(DECODE_S, 0.0, ROUND_TRIP_S), 40 / 44, id="without O3"),
        pytest.param(done(CALL_S, 0.0, 0.0, in_engine=True), 4 / 44, id="without O2"),
        pytest.param(CLIENT, 0.0, id="submitted too late, or not at all"),
        pytest.param(CACHED, -200 / 44, id="alpha of 0"),
        pytest.param(done(CALL_S, 0.0, 2 * ROUND_TRIP_S), -4 / 44, id="a submission that costs time"),
    ],
)
def test_it_falls_with_what_makes_the_engine_worse(worse: Done, over_client: float) -> None:
    found = attained(worse)
    assert found["eq6_attainment"] < 0.999
    assert found["eq6_attainment_over_client_side"] == pytest.approx(over_client, abs=1e-6)


def test_a_call_that_the_engine_has_not_answered_counts() -> None:
    """Tasks are chosen by their latency, known before the run, and not by how it went."""
    missed = dataclasses.replace(CLIENT, in_engine=False)
    assert attained(missed)["eq6_attainment_over_client_side"] == pytest.approx(0.0)


def test_tools_that_outlast_the_reasoning_are_left_out() -> None:
    assert attained(ENGINE, tool_s=0.76) == {}


@pytest.mark.parametrize("reasoning", [0, 1])
def test_a_model_that_calls_at_once_has_no_attainment(reasoning: int) -> None:
    assert attained(ENGINE, reasoning=reasoning) == {}
