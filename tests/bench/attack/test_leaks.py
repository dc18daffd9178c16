"""The slope of a process's memory."""

from __future__ import annotations

import pytest

from agentrt.bench.attack.leaks import Sample, growth_per_hour


def test_growth_after_the_warm_up_counts() -> None:
    def grown(megabytes: float, number: int) -> Sample:
        return Sample(10.0 * number, 200 + megabytes, 20, 10, 0)

    level = [grown(min(number, 30), number) for number in range(100)]
    assert growth_per_hour(level) == pytest.approx(0)
    leaking = [grown(min(number, 30) + number / 36, number) for number in range(100)]
    assert growth_per_hour(leaking) == pytest.approx(10)
    assert growth_per_hour(level[:1]) == 0
