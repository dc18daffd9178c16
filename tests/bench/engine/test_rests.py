from __future__ import annotations

from agentrt.bench.engine.rests import rest_between_steps
from agentrt.runtime.engine.trace import TracedKernel
from agentrt.runtime.heg.kernel import Role


def kernel(batch: int, started: float, seconds: float, stage: str = "decode") -> TracedKernel:
    return TracedKernel(
        Role.DECODE, started, started + seconds, batch, 0, 1, "layers", stage, True, ("gen_1",), 1
    )


def test_it_is_what_a_step_takes_beyond_its_kernels() -> None:
    kernels = [
        kernel(0, 0.0, 5.0, "prefill"),
        *(kernel(1, 10.0, 1.0), kernel(1, 11.5, 2.0)),  # 0.5 between, 0.25 after
        *(kernel(2, 13.75, 1.0), kernel(2, 15.0, 2.0)),  # 0.25 and 0.5
        *(kernel(3, 17.5, 1.0), kernel(3, 18.5, 2.0)),  # and 4 once, when something else had the machine
        kernel(4, 24.5, 1.0),
    ]
    assert rest_between_steps(kernels) == 0.75
