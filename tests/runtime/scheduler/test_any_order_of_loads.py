"""Random orders of events with stored contexts: loads that start, end and fail, blocks that are copied."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.scheduler.policy import POLICIES
from tests.hypothesis_profiles import examples
from tests.runtime.scheduler.swapping import FakeSwapper, SwappingMachine
from tests.runtime.scheduler.test_any_order import AnyOrder, hurried


class AnyOrderOfLoads(AnyOrder):
    """The machine checks that each kernel reads what it should, and writes to no block that others use."""

    machine: SwappingMachine
    machine_type = SwappingMachine

    @property
    def swapper(self) -> FakeSwapper:
        return self.machine.swapper

    def waits(self) -> bool:
        return self.holds_blocks() or super().waits()

    def holds_blocks(self) -> bool:
        """Loads, sequences that wait for them and the swapper hold blocks that a ready sequence may lack."""
        return bool(self.swapper.queue or self.swapper.in_flight or self.swapper.outgoing)

    def settle(self) -> None:
        if self.swapper.queue or self.swapper.in_flight:
            self.machine.load_all()
        while self.swapper.outgoing:
            self.machine.copy_one()

    @precondition(lambda self: self.swapper.queue)
    @rule()
    def load_starts(self) -> None:
        self.swapper.start()

    @precondition(lambda self: self.swapper.in_flight)
    @rule(data=st.data(), damaged=st.booleans())
    def load_ends(self, data: st.DataObject, damaged: bool) -> None:
        load = data.draw(st.sampled_from(self.swapper.in_flight))
        self.machine.end_load(load, damaged=damaged)

    @precondition(lambda self: self.swapper.outgoing)
    @rule()
    def block_is_copied(self) -> None:
        self.machine.copy_one()

    @precondition(lambda self: self.swapper.stored)
    @rule(data=st.data())
    def chunk_is_gone(self, data: st.DataObject) -> None:
        del self.swapper.stored[data.draw(st.sampled_from(sorted(self.swapper.stored)))]

    @rule(chunk_s=st.sampled_from([0.0, 0.02, 10.0]))
    def speed_of_the_disk(self, chunk_s: float) -> None:
        self.swapper.cost = LinearCost(chunk_s, 0.0)


@pytest.mark.matrix
@pytest.mark.hypothesis
@pytest.mark.parametrize("xpus", [1, 2])
@pytest.mark.parametrize("name", POLICIES)
def test_any_order_of_loads(name: str, xpus: int) -> None:
    case = type("Case", (AnyOrderOfLoads,), {"policy": hurried(name), "xpus": xpus}).TestCase
    case.settings = examples(40, stateful_step_count=50)
    case("runTest").runTest()
