"""What becomes of a hybrid model's sequences whose batch is dropped between two kernels."""

from __future__ import annotations

import pytest

from agentrt.priority import Priority
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState
from tests.runtime.scheduler.machine import Machine


def paused_mixed_batch(*, share_sampled: bool) -> tuple[Machine, list[Sequence]]:
    """Return a machine between two kernels of two background decodes, inside a block, and a prompt."""
    machine = Machine(blocks=16, state_rows=9, share_sampled=share_sampled)
    sequences = [machine.add(5, Priority.PROACTIVE, answer=9) for _ in range(2)]
    while any(sequence.needs_prefill for sequence in sequences):
        machine.step()
    sequences.append(machine.add(12, Priority.PROACTIVE))
    kernel = machine.step()
    while kernel is not None and (len(kernel.chunks) < 3 or kernel.scheduled.kernel.last):
        kernel = machine.step()
    assert kernel is not None
    assert all(sequence.computed_tokens % 4 for sequence in sequences[:2])
    return machine, sequences


@pytest.mark.parametrize("share_sampled", [False, True])
def test_a_reactive_prompt_takes_the_blocks_of_two_of_them(share_sampled: bool) -> None:
    """It evicts the prompt, which drops the batch, and one of the decodes."""
    machine, (first, second, prompt) = paused_mixed_batch(share_sampled=share_sampled)
    urgent = machine.add(52)
    machine.schedule()
    assert urgent.state is SequenceState.PREFILL
    assert (second.state, prompt.state) == (SequenceState.WAITING, SequenceState.WAITING)
    # Quantised keys of the block it was in must be written again from its first token, whose state is lost.
    assert (first.state is SequenceState.WAITING) == (not share_sampled)
    for sequence in (urgent, first, second, prompt):
        machine.until(sequence)
    assert machine.scheduler.statistics().waiting == machine.scheduler.statistics().running == 0
