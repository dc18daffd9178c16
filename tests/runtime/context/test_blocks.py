from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentrt.runtime.context import BlockPool

TOTAL = 12


class PoolMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(TOTAL)
        self.tables: list[list[int]] = []

    @precondition(lambda self: self.pool.free)
    @rule(data=st.data())
    def allocate(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, self.pool.free))
        blocks = self.pool.allocate(count)
        assert len(blocks) == count
        self.tables.append(blocks)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.pool.release(self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1))))

    @invariant()
    def conserved(self) -> None:
        self.pool.check_integrity(self.tables)
        assert self.pool.free == TOTAL - sum(map(len, self.tables))


TestPool = PoolMachine.TestCase


def test_running_out_is_a_bug_of_the_caller() -> None:
    pool = BlockPool(3)
    pool.allocate(2)
    with pytest.raises(AssertionError, match="2 blocks wanted, 1 free"):
        pool.allocate(2)


def test_double_release() -> None:
    pool = BlockPool(3)
    blocks = pool.allocate(2)
    pool.release(blocks)
    with pytest.raises(AssertionError, match="released twice"):
        pool.release(blocks)


def test_integrity_sees_a_lost_and_a_shared_block() -> None:
    pool = BlockPool(4)
    table = pool.allocate(2)
    pool.check_integrity([table])
    with pytest.raises(AssertionError, match="not conserved"):
        pool.check_integrity([])
    with pytest.raises(AssertionError, match="not conserved"):
        pool.check_integrity([table, table])
    with pytest.raises(AssertionError, match="not conserved"):
        pool.check_integrity([[*table[:1], table[0]]])
