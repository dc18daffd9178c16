"""The figures get worse when what they measure does."""

from __future__ import annotations

import pytest

from agentrt.bench.drafting.answering import Answer
from agentrt.bench.drafting.comparison import GENAI_LOOKUP, Measured, SetResult
from agentrt.bench.drafting.extremes import graph_switch_hidden_fraction, index_costs
from agentrt.bench.drafting.sides import OURS, SAM, SUFFIX_DECODING, VANILLA

TOKENS = tuple(range(41))


def answer(decode_s: float, passes: int = 40) -> Answer:
    return Answer(TOKENS, decode_s, decode_s + 1.0, passes, 0, 0.0)


def result(name: str, seconds: dict[str, float], *, heavy: bool = True, calls: bool = False) -> SetResult:
    made = SetResult(name, heavy, calls)
    made.answers = {side: [answer(taken)] for side, taken in seconds.items()}
    made.answers[SAM] = [answer(1.0)]
    made.answers[OURS] = [answer(seconds[OURS], passes=20)]
    return made


def measured(**seconds: float) -> Measured:
    times = {VANILLA: 4.0, OURS: 2.0, SUFFIX_DECODING: 3.0, GENAI_LOOKUP: 5.0}
    times |= {OURS: seconds["ours"]} if "ours" in seconds else {}
    made = Measured(
        [
            result("summary", times),
            result("rag", times),
            result("chat", times | {OURS: seconds.get("chat", 3.8)}, heavy=False),
            result("calls", {VANILLA: 4.0, OURS: seconds.get("calls", 1.0)}, heavy=False, calls=True),
        ]
    )
    made.identical = 1.0
    made.no_match_slowdowns, made.batch_ratios = [1.0, 3.0, 2.0], [0.9, 1.1, 1.0]
    return made


def test_what_each_figure_compares() -> None:
    figures = measured().figures()
    assert figures["speedup_vs_vanilla"] == pytest.approx(2.0)
    assert figures["tool_call_speedup"] == pytest.approx(4.0)
    assert figures["ratio_vs_openvino_prompt_lookup"] == pytest.approx(2.5)
    assert figures["speed_vs_suffix_rule"] == pytest.approx(1.5)
    assert figures["slowest_set_vs_vanilla"] == pytest.approx(4.0 / 3.8)
    assert figures["no_match_slowdown_pct"] == 2.0
    assert figures["batch8_drafting_ratio"] == 1.0
    assert "agent_turn_end_to_end_ratio" not in figures, "it was not measured"
    assert figures["tokens_a_pass_vs_sam"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("worse", "figure"),
    [
        ({"ours": 3.0}, "speedup_vs_vanilla"),
        ({"ours": 3.0}, "speed_vs_suffix_rule"),
        ({"ours": 3.0}, "ratio_vs_openvino_prompt_lookup"),
        ({"calls": 3.0}, "tool_call_speedup"),
        ({"chat": 4.4}, "slowest_set_vs_vanilla"),
    ],
)
def test_slower_drafts_are_seen(worse: dict[str, float], figure: str) -> None:
    assert measured(**worse).figures()[figure] < measured().figures()[figure]


def test_shorter_accepted_drafts_are_seen() -> None:
    made = measured()
    for each in (result for result in made.results if result.context_heavy):
        each.answers[OURS] = [answer(1.0, passes=32)]
    assert made.figures()["tokens_a_pass_vs_sam"] == pytest.approx(1.25)


def test_a_long_prompt_hides_the_loads_of_graphs() -> None:
    assert graph_switch_hidden_fraction(128) < 0.5, "one chunk hides few loads"
    assert graph_switch_hidden_fraction() >= 0.95


def test_costs_of_retrieval() -> None:
    costs = index_costs(prompt_tokens=4096, passes=50)
    assert 4 < costs["memory_overhead_mb"] < 30
    assert costs["draft_ms_p99_at_32k"] > 0
