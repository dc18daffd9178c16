"""The arithmetic of the figures."""

from __future__ import annotations

import pytest

from agentrt.bench.common.crash_points import CrashPoints
from agentrt.bench.context.figures import Measured, active_contexts
from agentrt.bench.context.poison import Poisoned
from agentrt.bench.context.recompute import Recomputed
from agentrt.bench.context.replay import Switch
from agentrt.bench.context.replayed import Replayed, percentile
from agentrt.bench.context.restart import Restart
from agentrt.bench.context.slowdown import Slowdown


def replayed(side: str, contexts: int, *ms: float, pattern: str = "random") -> Replayed:
    return Replayed(side, pattern, contexts, tuple(Switch(0, 100, each / 1e3, 1.0, 96) for each in ms))


def test_ratios_compare_the_means_over_all_switches() -> None:
    measured = Measured(
        [
            replayed("ours", 4, 1, 3),
            replayed("VLLM-SQ", 4, 8, 8),
            replayed("LMK", 4, 100, 300),  # the only trace of this side
            replayed("ours", 8, 20, 20),
            replayed("VLLM-SQ", 8, 40, 40),
            replayed("ours", 8, 10, pattern="markov"),
            replayed("VLLM-SQ", 8, 60, pattern="markov"),
        ]
    )
    figures = measured.figures()
    assert figures["switch_latency_ratio_vs_vllm_sq_mean"] == pytest.approx((16 + 80 + 60) / (4 + 40 + 10))
    assert figures["switch_latency_ratio_vs_lmk_mean"] == pytest.approx(100)
    assert "switch_latency_ratio_vs_swapping_mean" not in figures
    assert figures["switch_p95_ms"] == pytest.approx(20)
    # VLLM-SQ crosses 25 ms between 4 contexts (8 ms) and 8 (40 ms).
    assert figures["active_contexts_ratio_at_25ms"] == pytest.approx(8 / (4 + 4 * 17 / 32))


@pytest.mark.parametrize(
    ("means_ms", "active"),
    [({2: 1.0, 4: 5.0}, 4), ({2: 30.0, 4: 50.0}, 0), ({2: 5.0, 4: 45.0}, 3), ({2: 5.0, 4: 45.0, 8: 1.0}, 3)],
)
def test_active_contexts_end_where_the_limit_is_crossed(means_ms: dict[int, float], active: float) -> None:
    assert active_contexts({contexts: ms / 1e3 for contexts, ms in means_ms.items()}) == pytest.approx(active)


def test_percentiles_are_interpolated() -> None:
    assert percentile([3.0], 0.95) == 3.0
    assert percentile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == 3.0
    assert percentile([0.0, 10.0], 0.95) == pytest.approx(9.5)


def test_other_figures() -> None:
    assert Measured().figures() == {}
    restarts = [
        Restart(1000, [1.0, 2.0, 1.0], [40.0, 30.0, 50.0], [2.0, 2.0, 9.0]),
        Restart(8000, [2.0], [400.0], [3.0]),
    ]
    figures = Measured(
        restarts=restarts,
        slowdown=Slowdown((1.1, 1.2, 9.0), (1.0, 1.0, 1.0)),
        recomputed=Recomputed(8, 4, 4, 0.25),
        poisoned=[Poisoned("a bit", 10, 10, 1, 0), Poisoned("a cut", 10, 9, 0, 0)],
        crashes=CrashPoints(20, 19, ("mail after load 3",)),
    ).figures()
    assert figures == pytest.approx(
        {
            "restart_ttft_ratio_vs_recompute_1k": 40.0,
            "restart_ttft_ratio_vs_recompute_8k": 200.0,
            "restart_ttft_ratio_vs_llama_cpp_restore": 1.5,
            "inference_slowdown_pct": 20.0,
            "recompute_max_abs_diff": 0.25,
            "poison_free_completions": 0.95,
            "crash_points_survived": 19,
            "crash_points_tried": 20,
        }
    )
