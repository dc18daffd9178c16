from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentrt.runtime.kv.block_pool import BlockPool

TOTAL = 8
CHAINS = {name: [f"{name}{depth}".encode() for depth in range(4)] for name in ("a", "b")}


class PoolMachine(RuleBasedStateMachine):
    """Block tables that start with the cached prefix of a chain of hashes; their new blocks may be cached."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(TOTAL)
        self.tables: list[list[int]] = []
        self.content: dict[int, bytes] = {}
        self.quarantined = 0

    @rule(chain=st.sampled_from(sorted(CHAINS)), length=st.integers(0, 4), cached=st.booleans())
    def hold(self, chain: str, length: int, cached: bool) -> None:
        hashes = CHAINS[chain][:length]
        table = self.pool.acquire_cached(hashes)
        assert [self.content[block] for block in table] == hashes[: len(table)], (
            "found under the hash of its content"
        )
        missing = length - len(table)
        if missing > self.pool.free:
            self.pool.release(table)
            return
        fresh = self.pool.allocate(missing)
        assert not any(block in other for block in fresh for other in [*self.tables, table])
        for block, key in zip(fresh, hashes[len(table) :], strict=True):
            self.content.pop(block, None)
            if cached:
                self.pool.cache(block, key)
                self.content[block] = key
        self.tables.append(table + fresh)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.pool.release(self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1))))

    @precondition(lambda self: self.quarantined < 3 and self.pool.free)
    @rule()
    def quarantine(self) -> None:
        self.pool.quarantine(self.pool.allocate(1))
        self.quarantined += 1

    @rule(data=st.data())
    def freed_by(self, data: st.DataObject) -> None:
        chosen = [table for table in self.tables if data.draw(st.booleans())]
        released = {block: sum(table.count(block) for table in chosen) for table in chosen for block in table}
        kept = {block for table in self.tables if table not in chosen for block in table}
        others = [table for table in self.tables if table in chosen]
        if len(others) == len(chosen):
            assert self.pool.freed_by(released) == len({b for b in released if b not in kept})

    @invariant()
    def conserved(self) -> None:
        self.pool.check_integrity(self.tables)
        held = {block for table in self.tables for block in table}
        assert self.pool.usable == TOTAL - self.quarantined
        assert self.pool.free == self.pool.usable - len(held)


TestPool = PoolMachine.TestCase


def test_reuse_takes_the_least_recently_used_table_from_its_end() -> None:
    pool = BlockPool(4)
    tables = {}
    for name in ("a", "b"):
        tables[name] = pool.allocate(2)
        for block, key in zip(tables[name], CHAINS[name], strict=False):
            pool.cache(block, key)
    pool.release(tables["a"])
    pool.release(tables["b"])
    assert (pool.free, pool.cached) == (4, 4)
    again = pool.acquire_cached(CHAINS["a"])
    assert again == tables["a"]
    pool.release(again)
    assert pool.allocate(1) == [tables["b"][1]]
    assert pool.acquire_cached(CHAINS["b"]) == tables["b"][:1]


def test_equal_content_is_cached_once() -> None:
    pool = BlockPool(3)
    one, two = pool.allocate(2)
    pool.cache(one, b"key")
    pool.cache(two, b"key")
    pool.release([two])
    assert pool.cached == 0
    assert pool.acquire_cached([b"key"]) == [one]


def test_bugs_are_found() -> None:
    pool = BlockPool(3)
    table = pool.allocate(2)
    pool.check_integrity([table])
    for tables, counted in (
        ([], "0 tables"),
        ([table, table], "2 tables"),
        ([[table[0], table[0]]], "2 tables"),
    ):
        with pytest.raises(AssertionError, match=f"is in {counted}, 1 are counted"):
            pool.check_integrity(tables)
    with pytest.raises(AssertionError, match="2 blocks wanted, 1 free"):
        pool.allocate(2)
    pool.release(table)
    with pytest.raises(AssertionError, match="released twice"):
        pool.release(table)
