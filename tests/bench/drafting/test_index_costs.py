"""What the bench says of the costs of retrieval."""

from __future__ import annotations

from agentrt.bench.drafting.index_costs import index_costs


def test_memory_and_times() -> None:
    costs = index_costs(prompt_tokens=4096, passes=50)
    assert 20 < costs.bytes_a_token <= 200
    assert 4 < costs.memory_overhead_mb < 30
    assert 0 < costs.draft_ms_median_at_32k <= costs.draft_ms_p99_at_32k
