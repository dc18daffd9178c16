"""Switching latency from kernels."""

from __future__ import annotations

import pytest

from agentrt.bench.context.switch import switch_seconds
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role


def kernel(batch: int, started: float, ended: float, tokens: int) -> TracedKernel:
    return TracedKernel(Role.PREFILL, started, ended, batch, 0, 1, "layers", "prefill", True, ("a",), tokens)


KERNELS = [
    kernel(1, 10.0, 11.0, 64),
    kernel(1, 11.0, 12.0, 64),
    kernel(2, 13.0, 17.0, 40),
    kernel(3, 17.0, 18.0, 1),
]


def test_a_context_that_is_there_is_ready_when_the_first_kernel_begins() -> None:
    assert switch_seconds(KERNELS, 9.5, 0) == 0.5


def test_what_is_computed_again_counts() -> None:
    assert switch_seconds(KERNELS, 9.5, 32) == 1.5, "half of the first batch"
    assert switch_seconds(KERNELS, 9.5, 64 + 10) == pytest.approx(13 + 4 * 10 / 40 - 9.5)


def test_between_two_batches_it_waits_for_loads() -> None:
    assert switch_seconds(KERNELS, 9.5, 64) == 3.5, "the new tokens begin with the second batch"


def test_nothing_but_known_tokens() -> None:
    assert switch_seconds(KERNELS[:2], 9.5, 64) == 2.5
    assert switch_seconds([], 9.5, 0) == 0.0
