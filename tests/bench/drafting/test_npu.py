"""Recorded passes on the simulated NPU: what they take follows from what was drafted and accepted."""

from __future__ import annotations

import pytest

from agentrt.bench.drafting.answering import Answer
from agentrt.bench.drafting.npu import Ablation, Recorded, Simulated, ablation, eagle, simulate_answer

TOKENS = 31
PROMPT = 600


def answer(added: int, drafted: int = 20) -> Answer:
    """An answer of which each pass adds ``added`` tokens."""
    steps = tuple((drafted, added) for _ in range((TOKENS - 1) // added)) if added > 1 else ()
    passes = len(steps) or TOKENS - 1
    return Answer(tuple(range(TOKENS)), 1.0, 1.0, passes, 0, 0.0, steps=steps)


@pytest.mark.parametrize("npu", [False, True])
def test_a_pass_takes_the_same_time_however_many_tokens_it_adds(npu: bool) -> None:
    one, five, many = (simulate_answer(PROMPT, answer(added), npu_decoding=npu) for added in (1, 5, 15))
    assert five.token_ms == pytest.approx(one.token_ms / 5, rel=0.25)
    assert many.token_ms == pytest.approx(one.token_ms / 15, rel=0.5)
    assert one.decode_j > five.decode_j > many.decode_j > 0


def test_logits_of_the_prompt_cost_prefill() -> None:
    plain = simulate_answer(PROMPT, answer(5), npu_decoding=True)
    calibrated = simulate_answer(PROMPT, answer(5), npu_decoding=True, calibrates=True)
    assert 1.05 * plain.prefill_s < calibrated.prefill_s < 1.5 * plain.prefill_s
    assert calibrated.prefill_j > plain.prefill_j
    assert calibrated.token_ms == pytest.approx(plain.token_ms, rel=0.05)


def test_eagle_is_the_paper_s_estimate() -> None:
    row = eagle(Simulated(100, 1.0, 8.0, 2.0, 50.0))
    assert row.token_ms == pytest.approx((80 + 6 * ((80 - 9.77) / 28 + 9.77)) / 5.5, rel=0.01)
    assert row.decode_j / row.decode_s == pytest.approx(50 / 8)


def test_the_table_has_a_row_for_each_side_and_figures_compare_the_last_one() -> None:
    recorded = [Recorded(side) for side in ablation()]
    for one, added in zip(recorded, (1, 2, 3, 5, 6), strict=True):
        one.answers = [(PROMPT, answer(added)), (2 * PROMPT, answer(added))]
    made = Ablation(recorded)
    rows = made.table().rows
    assert [row[0] for row in rows[:-1]] == ["vanilla", "retrieval", "+ calibration", "+ reuse", "+ branches"]
    assert [row[1] for row in rows] == [1.0, 2.0, 3.0, 5.0, 6.0, 5.5]
    assert all(row[4] > row[5] for row in rows), "graphs loaded after prefill delay the answer"
    figures = made.figures()
    assert figures["npu_speedup_vs_vanilla"].value > figures["npu_speedup_vs_retrieval"].value > 2
    assert figures["npu_energy_ratio"].value > 1
