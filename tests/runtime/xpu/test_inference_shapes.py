"""Shapes that are safe after an interruption, on a model of how OpenVINO's CPU plugin prepares operations."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.xpu.compiled import InferenceShapes, Shape
from tests.hypothesis_profiles import examples

LENGTHS = st.tuples(*[st.integers(1, 3)] * 2)


@dataclass
class Operation:
    """It is prepared anew if its inputs have other lengths than when it ran last."""

    reads: frozenset[int]
    ran: Shape | None = None
    prepared: Shape | None = None

    def inputs(self, shape: Shape) -> Shape:
        return tuple(shape[length] for length in sorted(self.reads))


@dataclass
class Plugin:
    operations: list[Operation] = field(default_factory=list)

    def infer(self, shape: Shape, *, prepares: int | None = None, runs: int | None = None) -> None:
        """Prepare and run all operations, or as many before an interruption."""
        for operation in self.operations[:prepares]:
            if operation.inputs(shape) != operation.ran:
                operation.prepared = operation.inputs(shape)
        for operation in self.operations[:runs]:
            assert operation.prepared == operation.inputs(shape), "it computes with another shape"
            operation.ran = operation.inputs(shape)


@pytest.mark.hypothesis
@examples(500)
@given(
    reads=st.lists(st.frozensets(st.integers(0, 1), min_size=1), min_size=1, max_size=6),
    inferences=st.lists(
        st.tuples(LENGTHS, st.one_of(st.none(), st.tuples(st.integers(0, 6), st.integers(0, 6)))), max_size=20
    ),
)
def test_no_operation_computes_with_another_shape_than_its_inputs(
    reads: list[frozenset[int]], inferences: list[tuple[Shape, tuple[int, int] | None]]
) -> None:
    plugin, shapes = Plugin([Operation(each) for each in reads]), InferenceShapes()
    for shape, interruption in inferences:
        if not shapes.allow(shape):
            settling = shapes.unlike()
            assert max(settling) <= 11, "a few tokens, in one block"
            plugin.infer(settling)
            shapes.end(settling)
            assert shapes.allow(shape)
        if interruption is None:
            plugin.infer(shape)
            shapes.end(shape)
        else:
            plugin.infer(shape, prepares=max(interruption), runs=min(interruption))
            shapes.interrupt(shape)


def test_only_what_an_interruption_can_have_left_is_avoided() -> None:
    shapes = InferenceShapes()
    assert shapes.allow((1, 1))
    shapes.end((1, 1))
    shapes.interrupt((288, 0))
    assert shapes.allow((288, 0)), "the same once more"
    assert shapes.allow((57, 2))
    assert not shapes.allow((1, 2)), "as many tokens as before"
    assert not shapes.allow((57, 1)), "as many rows"
    shapes.end((57, 2))
    assert shapes.allow((1, 1))
