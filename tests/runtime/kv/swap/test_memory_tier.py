from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrt.runtime.kv.store.chunk_files import Chunk
from agentrt.runtime.kv.swap.memory_tier import MemoryTier

LEVELS = (0, 8, 4, 2)
BUDGET = 100


def chunk(number: int, level: int = 8, size: int = 10) -> Chunk:
    return Chunk(number.to_bytes(16), level, bytes(size))


class TierMachine(RuleBasedStateMachine):
    """A tier beside a list of its chunks in the order of their last use."""

    def __init__(self) -> None:
        super().__init__()
        self.tier = MemoryTier(BUDGET)
        self.used: list[Chunk] = []

    @rule(number=st.integers(0, 20), level=st.sampled_from(LEVELS), size=st.integers(1, 60))
    def put(self, number: int, level: int, size: int) -> None:
        new = chunk(number, level, size)
        self.used = [other for other in self.used if other.block_hash != new.block_hash]
        self.used.append(new)
        self.tier.put("app", new)
        while sum(len(other.payload) for other in self.used) > BUDGET:
            heaviest = max(other.level or 32 for other in self.used)
            self.used.remove(next(other for other in self.used if (other.level or 32) == heaviest))

    @rule(number=st.integers(0, 20))
    def get(self, number: int) -> None:
        expected = next((other for other in self.used if other.block_hash == number.to_bytes(16)), None)
        assert self.tier.get("app", number.to_bytes(16)) is expected
        if expected is not None:
            self.used.remove(expected)
            self.used.append(expected)

    @rule(number=st.integers(0, 20))
    def forget(self, number: int) -> None:
        self.used = [other for other in self.used if other.block_hash != number.to_bytes(16)]
        self.tier.forget("app", number.to_bytes(16))

    @invariant()
    def within_the_budget(self) -> None:
        assert self.tier.payload_bytes == sum(len(other.payload) for other in self.used) <= BUDGET
        assert all(("app", other.block_hash) in self.tier for other in self.used)


TestTier = TierMachine.TestCase


def test_no_app_finds_another_apps_chunk() -> None:
    tier = MemoryTier(BUDGET)
    tier.put("mail", chunk(1))
    assert tier.get("notes", chunk(1).block_hash) is None
    assert ("notes", chunk(1).block_hash) not in tier
    assert tier.get("mail", chunk(1).block_hash) == chunk(1)
    tier.clear()
    tier.put("mail", chunk(2))
    assert (tier.payload_bytes, tier.hashes("mail")) == (10, [chunk(2).block_hash])


@pytest.mark.parametrize("budget", [0, 9])
def test_a_chunk_larger_than_the_budget_is_not_kept(budget: int) -> None:
    tier = MemoryTier(budget)
    tier.put("app", chunk(1))
    assert (tier.payload_bytes, tier.evicted) == (0, 0)
