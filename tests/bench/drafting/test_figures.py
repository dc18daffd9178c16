"""The figures get worse when what they measure does."""

from __future__ import annotations

import pytest

from agentrt.bench.common.estimates import exact
from agentrt.bench.drafting.answering import Answer
from agentrt.bench.drafting.comparison import (
    GENAI_LOOKUP,
    GENAI_LOOKUP_EQUAL,
    Measured,
    SetResult,
    latency_table,
)
from agentrt.bench.drafting.extremes import graph_switch_hidden_fraction, index_costs
from agentrt.bench.drafting.prompt_sets import Source
from agentrt.bench.drafting.sides import CALIBRATED, OURS, REUSING, SUFFIX_DECODING, VANILLA

TOKENS = tuple(range(41))


def answer(decode_s: float, tokens: tuple[int, ...] = TOKENS) -> Answer:
    return Answer(tokens, decode_s, decode_s + 1.0, 40, 0, 0.0)


def result(
    name: str, source: Source, seconds: dict[str, float], *, heavy: bool = True, calls: bool = False
) -> SetResult:
    """Two prompts, of which the second takes a tenth longer on all sides."""
    made = SetResult(name, source, heavy, calls)
    made.answers = {side: [answer(taken), answer(1.1 * taken)] for side, taken in seconds.items()}
    made.again = [answer(0.5), answer(0.5)]
    made.predicted, made.mispredicted = [answer(0.5), answer(0.55)], [answer(2.0), answer(2.2)]
    return made


def measured(ours: float = 2.0, chat: float = 3.8, calls: float = 1.0, equal: float = 4.5) -> Measured:
    times = {VANILLA: 4.0, OURS: ours, SUFFIX_DECODING: 3.0, GENAI_LOOKUP: 5.0, GENAI_LOOKUP_EQUAL: equal}
    made = Measured(
        [
            result("summary", Source.PUBLIC, times),
            result("rag", Source.PUBLIC, times),
            result("mtrag-un", Source.HELD_BACK, times | {OURS: ours * 2}),
            result("edit", Source.OWN, times | {OURS: ours / 4}),
            result("chat", Source.PUBLIC, times | {OURS: chat}, heavy=False),
            result("calls", Source.PUBLIC, {VANILLA: 4.0, OURS: calls}, heavy=False, calls=True),
        ]
    )
    made.identical = exact(1.0)
    made.undrafted_slowdowns, made.batch_ratios = [1.0, 3.0, 2.0], [0.9, 1.1, 1.0]
    return made


def values(made: Measured) -> dict[str, float]:
    return {name: each.value for name, each in made.figures().items()}


def test_what_each_figure_compares() -> None:
    figures = values(measured())
    assert figures["speedup_vs_vanilla_public_sets"] == pytest.approx(2.0)
    assert figures["speedup_vs_vanilla_held_back_sets"] == pytest.approx(1.0)
    assert figures["speedup_vs_vanilla_own_sets"] == pytest.approx(8.0)
    assert figures["tool_call_speedup"] == pytest.approx(4.0)
    assert figures["predicted_call_speedup"] == pytest.approx(8.0)
    assert figures["mispredicted_call_speedup"] == pytest.approx(2.0)
    assert figures["predicted_call_tokens_identical"] == figures["mispredicted_call_tokens_identical"] == 1.0
    assert figures["ratio_vs_openvino_prompt_lookup"] == pytest.approx(3 * 4.5 / 8), "the faster one of two"
    assert figures["speed_vs_suffix_rule"] == pytest.approx(9 / 8)
    assert figures["slowest_set_vs_vanilla"] == pytest.approx(1.0)
    assert figures["recurring_request_speedup"] == pytest.approx((2 + 2 + 4 + 0.5 + 3.8 + 1) * 1.05 / 3)
    assert figures["undrafted_slowdown_pct"] == 2.0
    assert figures["batch8_drafting_ratio"] == 1.0
    assert figures["tokens_identical_at_default_precision"] == 1.0
    assert "agent_turn_end_to_end_ratio" not in figures, "it was not measured"
    assert all(each.has_interval for each in measured().figures().values())


def test_what_drafts_from_logits_add_and_cost() -> None:
    made = measured()
    assert "calibration_speedup" not in made.figures(), "there is no such side"
    for each in made.results:
        each.answers[CALIBRATED], each.answers[REUSING] = [answer(1.6)] * 2, [answer(4.2)] * 2
        each.prefill_s, each.calibrated_prefill_s = 2.0, 2.8
    figures = values(made)
    assert figures["calibration_speedup"] == pytest.approx((2 + 2 + 4) * 1.05 / 4.8)
    assert figures["reuse_speedup"] == pytest.approx((2 + 2 + 4) * 1.05 / 12.6)
    assert figures["calibration_prefill_ratio"] == pytest.approx(1.4)


def test_intervals_are_over_prompts() -> None:
    made = measured()
    made.results[0].answers[OURS][1] = answer(8.0)
    speedup = made.figures()["speedup_vs_vanilla_public_sets"]
    assert speedup.low is not None
    assert speedup.high is not None
    assert speedup.low < speedup.value < speedup.high
    assert speedup.samples == 4


def test_turns_of_agents_are_compared_as_a_whole() -> None:
    made = measured()
    made.agent_turns = [(3.0, 2.0), (9.0, 6.0), (3.0, 2.0)]
    assert made.figures()["agent_turn_end_to_end_ratio"].value == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("worse", "figure"),
    [
        ({"ours": 3.0}, "speedup_vs_vanilla_public_sets"),
        ({"ours": 3.0}, "speed_vs_suffix_rule"),
        ({"ours": 3.0}, "ratio_vs_openvino_prompt_lookup"),
        ({"equal": 3.0}, "ratio_vs_openvino_prompt_lookup"),
        ({"calls": 3.0}, "tool_call_speedup"),
        ({"chat": 4.4}, "slowest_set_vs_vanilla"),
    ],
)
def test_slower_drafts_and_faster_peers_are_seen(worse: dict[str, float], figure: str) -> None:
    assert values(measured(**worse))[figure] < values(measured())[figure]


def test_other_answers_are_counted() -> None:
    made = measured()
    made.results[0].answers[OURS][0] = answer(2.0, TOKENS[:-1])
    assert made.figures()["tokens_identical_at_default_precision"].value == pytest.approx(11 / 12)
    made.results[-1].mispredicted[0] = answer(2.0, TOKENS[:-1])
    assert made.figures()["mispredicted_call_tokens_identical"].value == 0.5


def test_the_table_names_the_fastest_side() -> None:
    table = latency_table([result("chat", Source.PUBLIC, {VANILLA: 2.0, OURS: 3.0}, heavy=False)])
    assert table.columns == ("set", "texts", VANILLA, OURS, "fastest")
    assert table.rows[0][-1] == VANILLA


def test_a_long_prompt_hides_the_loads_of_graphs() -> None:
    assert graph_switch_hidden_fraction(128) < 0.5, "one chunk hides few loads"
    assert graph_switch_hidden_fraction() >= 0.95


def test_costs_of_retrieval() -> None:
    costs = index_costs(prompt_tokens=4096, passes=50)
    assert 4 < costs["memory_overhead_mb"].value < 30
    assert "draft_ms_p99_at_32k" not in costs, "50 passes have no p99"
    assert index_costs(prompt_tokens=4096, passes=100)["draft_ms_p99_at_32k"].value > 0
