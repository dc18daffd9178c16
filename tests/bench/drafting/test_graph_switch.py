from __future__ import annotations

from agentrt.bench.drafting.graph_switch import PROMPT_TOKENS, measure_graph_switch


def test_the_figure_and_its_tables() -> None:
    result = measure_graph_switch((128, PROMPT_TOKENS))
    assert result.figures["graph_switch_hidden_fraction"] >= 0.95
    prompts, loads = result.tables
    short, long = (dict(zip(prompts.columns, row, strict=True)) for row in prompts.rows)
    share = "share of load time hidden"
    assert float(short[share] or 0) < 0.5 < float(long[share] or 0)  # one chunk hides few loads
    for row in loads.rows:
        plans = dict(zip(loads.columns, row, strict=True))
        assert float(plans["greedy, late start"] or 0) <= float(plans["synchronous"] or 0)
