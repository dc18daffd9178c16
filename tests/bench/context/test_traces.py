"""The traces of LLMS §4."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter

import pytest

from agentrt.bench.context.traces import PATTERNS, TASKS, draw_trace, task_of


@pytest.mark.parametrize("pattern", PATTERNS)
def test_calls_are_poisson_and_as_long_as_table_3_says(pattern: str) -> None:
    trace = draw_trace(pattern, 7, 3000, interval_s=300.0)
    times = [call.at_s for call in trace]
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert statistics.fmean(gaps) == pytest.approx(300, rel=0.1)
    assert statistics.pstdev(gaps) == pytest.approx(300, rel=0.15), "exponential"
    assert {call.context for call in trace} == set(range(7))
    for call in trace:
        assert call.task is task_of(call.context)
        assert call.task.least <= call.tokens <= call.task.most
    assert draw_trace(pattern, 7, 3000, interval_s=300.0) == trace != draw_trace(pattern, 7, 3000, seed=1)


def test_random_contexts_are_equally_likely() -> None:
    counts = Counter(call.context for call in draw_trace("random", 4, 4000))
    assert all(count == pytest.approx(1000, rel=0.15) for count in counts.values())


def test_markov_prefers_what_was_used_last() -> None:
    contexts = [call.context for call in draw_trace("markov", 8, 4000)]
    again = sum(before == after for before, after in itertools.pairwise(contexts))
    assert again / 4000 == pytest.approx(1 / sum(1 / n for n in range(1, 9)), rel=0.15)
    assert max(Counter(contexts).values()) < 2 * min(Counter(contexts).values()), "no context is special"


def test_gaussian_prefers_a_moderate_workload() -> None:
    counts = Counter(call.context for call in draw_trace("gaussian", 6, 4000))
    moderate = min(range(6), key=lambda at: abs(TASKS[at].mean - statistics.fmean(t.mean for t in TASKS)))
    largest = max(range(6), key=lambda at: TASKS[at].mean)
    assert counts[moderate] == max(counts.values())
    assert counts[largest] == min(counts.values())


def test_lengths_are_scaled() -> None:
    full, half = (draw_trace("random", 3, 50, scale=scale) for scale in (1.0, 0.5))
    assert [call.tokens for call in half] == pytest.approx([call.tokens / 2 for call in full], abs=1)


def test_there_are_three_patterns() -> None:
    with pytest.raises(ValueError, match="no pattern 'sometimes'"):
        draw_trace("sometimes", 2, 2)
