from __future__ import annotations

from agentrt.bench.common.workloads import Conversation, RecordedTurn
from agentrt.bench.context.returns import (
    LEARNED,
    LRU,
    OPTIMUM,
    SIDES,
    TOLD,
    Recomputed,
    Replay,
    draw_agents,
    return_figures,
    returns_table,
)
from agentrt.calls import ToolCall


def conversation(number: int) -> Conversation:
    """A conversation with tools in all turns but the last."""
    said = {"role": "user", "content": f"{number} " * 200}
    turns = [
        RecordedTurn(place, (ToolCall(name="slow" if place == 1 else "quick", arguments={}),))
        for place in (1, 3, 5)
    ]
    return Conversation(str(number), [said] * 8, [], frozenset(), turns=[*turns, RecordedTurn(7, ())])


def test_less_is_computed_again_than_under_lru_and_nothing_where_all_fits() -> None:
    agents = draw_agents({"app": [conversation(number) for number in range(20)]}, 120, seed=1)
    assert 0 < agents.peak_blocks < 120 * agents.largest
    blocks = agents.largest * 4
    lru, told, learned, optimum = (
        Replay(agents, side, blocks).after_tools["app"] for side in (LRU, TOLD, LEARNED, OPTIMUM)
    )
    assert max(told, learned, optimum) < lru
    for side in (LRU, *SIDES):
        assert Replay(agents, side, 120 * agents.largest).after_all.total() == 0


def test_figures_are_the_highest_ratios() -> None:
    recomputed = [
        Recomputed(0.5, TOLD.name, [(10, 50, 4), (20, 50, 4)], [(100, 100, 10), (100, 100, 10)]),
        Recomputed(0.75, TOLD.name, [(30, 50, 4), (60, 50, 4)], [(100, 100, 10), (100, 100, 10)]),
        Recomputed(0.75, LEARNED.name, [(0, 0, 0)], [(0, 0, 0)]),
    ]
    figures = {name: round(each.value, 6) for name, each in return_figures(recomputed).items()}
    assert figures == {
        "kv_recomputed_ratio_vs_lru": 0.45,
        "kv_recomputed_ratio_vs_lru_at_50pct": 0.15,
        "kv_recomputed_ratio_vs_lru_at_75pct": 0.45,
    }
    assert [row[-1] for row in returns_table(recomputed).rows] == [200, 200, 0]
