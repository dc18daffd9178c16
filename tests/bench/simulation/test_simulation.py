from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.simulation.platform import simulate
from agentrt.bench.simulation.simulation import SimulatedOutput, SimulatedRequest, Simulation
from agentrt.priority import Priority
from agentrt.runtime.engine.trace import Trace
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.scheduler.policy import POLICIES, Policy

QUANTUM = 0.025


def simulation(policy: Policy, machine: str = "core-ultra-5-125h") -> Simulation:
    platform, graph = simulate(f"simulated:{machine}", max_chunk_tokens=256, quantum_s=QUANTUM)
    return Simulation(platform, graph, policy, blocks=2048, max_batch_size=8)


def mixed(policy: Policy, *, background: int = 12, users: int = 6) -> Simulation:
    """Run many proactive and a few reactive requests to their end."""
    simulated = simulation(policy)
    rng = random.Random(7)
    for _ in range(background):
        request = SimulatedRequest(rng.randint(50, 900), rng.randint(1, 40), Priority.PROACTIVE)
        simulated.submit(request, rng.uniform(0, 20))
    rng = random.Random(8)
    for _ in range(users):
        request = SimulatedRequest(rng.choice([40, 300, 700]), 20, Priority.REACTIVE)
        simulated.submit(request, rng.uniform(0, 20))
    simulated.run()
    simulated.scheduler.check_integrity()
    assert len(simulated.outputs) == background + users
    return simulated


def mean(answers: list[SimulatedOutput], priority: Priority) -> float:
    times = [answer.time_to_first_token_s for answer in answers if answer.request.priority is priority]
    return sum(times) / len(times)


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_a_replay_is_the_same_to_the_last_kernel(name: str) -> None:
    first, second = mixed(POLICIES[name]), mixed(POLICIES[name])
    assert first.trace.kernels == second.trace.kernels
    assert first.outputs == second.outputs


def test_npu_and_gpu_compute_a_users_prompt_at_once() -> None:
    """Agent.xpu §6.1. One after the other they would take 3.8 s, the GPU alone 4.4 s."""
    simulated = simulation(Policy())
    simulated.submit(SimulatedRequest(2000, 1, Priority.REACTIVE), 0.0)
    simulated.run()
    busy = {
        role: sum(each.ended - each.started for each in simulated.trace.kernels if each.role is role)
        for role in Role
    }
    (output,) = simulated.outputs
    assert output.time_to_first_token_s < 2.6
    assert min(busy.values()) > 0.75 * output.time_to_first_token_s


def test_decodes_on_the_gpu_hardly_delay_a_prompt_on_the_npu() -> None:
    """Its attention waits at each layer for a decode kernel that is no longer than the NPU's own (§6.5)."""

    def first_token_s(decodes: int) -> float:
        simulated = simulation(Policy())
        for _ in range(decodes):
            simulated.submit(SimulatedRequest(64, 400, Priority.PROACTIVE), 0.0)
        simulated.run(until=2.0)
        simulated.submit(SimulatedRequest(1024, 1, Priority.PROACTIVE))
        simulated.run(until=20.0)
        (prompt,) = (each for each in simulated.outputs if each.request.prompt_tokens == 1024)
        return prompt.time_to_first_token_s

    assert first_token_s(2) < 1.3 * 8 * 0.232, "eight chunks on the NPU alone"


def test_background_load_hardly_delays_reactive_requests() -> None:
    quiet, busy = mixed(Policy(), background=0), mixed(Policy(), background=30)
    assert mean(busy.outputs, Priority.REACTIVE) < 1.25 * mean(quiet.outputs, Priority.REACTIVE)
    fcfs = mixed(POLICIES["fcfs"], background=30)
    assert mean(busy.outputs, Priority.REACTIVE) < 0.7 * mean(fcfs.outputs, Priority.REACTIVE)


def test_preemption_saves_the_recomputation_of_restarts() -> None:
    """Fig. 4: (a) is as fast for the user, but recomputes prompts."""
    ours, restart = mixed(replace(Policy(), shortest_first=False)), mixed(POLICIES["preempt-restart"])

    def prefilled(simulated: Simulation) -> int:
        return sum(kernel.tokens for kernel in simulated.trace.kernels if kernel.stage == "prefill")

    assert ours.scheduler.statistics().preemptions > 0
    assert prefilled(ours) < prefilled(restart)


def test_the_time_to_the_first_token_by_hand() -> None:
    simulated = simulation(Policy())
    simulated.submit(SimulatedRequest(64, 2, Priority.REACTIVE), 1.0)
    simulated.run()
    (answer,) = simulated.outputs
    kernels = simulated.trace.kernels
    prompt = [kernel for kernel in kernels if kernel.stage == "prefill"]
    assert answer.arrived == prompt[0].started == 1.0
    assert answer.first_token == prompt[-1].ended
    assert answer.ended == kernels[-1].ended
    assert answer.normalized_latency_s == (answer.first_token - 1.0) / 64


def test_the_next_turn_comes_after_the_last() -> None:
    simulated = simulation(Policy())
    turns: list[float] = []

    def again(answer: SimulatedOutput) -> None:
        turns.append(answer.ended)
        if len(turns) < 3:
            simulated.submit(answer.request, simulated.clock.now + 5, again)

    simulated.submit(SimulatedRequest(32, 4, Priority.REACTIVE), on_output=again)
    simulated.run()
    arrivals = [answer.arrived for answer in simulated.outputs]
    assert arrivals == [0.0, turns[0] + 5, turns[1] + 5]


def test_a_hung_kernel_costs_its_timeout_and_nothing_else() -> None:
    policy = replace(Policy(), hang_timeout_s=2.0)
    simulated, calm = simulation(policy), simulation(policy)
    for each in (simulated, calm):
        each.submit(SimulatedRequest(300, 10, Priority.PROACTIVE))
        each.submit(SimulatedRequest(40, 10, Priority.REACTIVE), 3.0)
    xpu: Any = simulated._platform.xpus[Role.DECODE]
    xpu.hang_next = True
    for each in (simulated, calm):
        each.run()
        each.scheduler.check_integrity()
        assert len(each.outputs) == 2
    assert xpu.rebuilds == 1
    assert simulated.scheduler.usable_tokens < calm.scheduler.usable_tokens
    assert simulated.clock.now - calm.clock.now < 2.6


def test_a_trace_opens_in_perfetto(tmp_path: Path) -> None:
    simulated = mixed(Policy())
    file = tmp_path / "trace.json"
    simulated.trace.write_chrome(str(file), {"machine": "a simulated one"})
    trace = json.loads(file.read_text())
    assert trace["otherData"] == {"machine": "a simulated one"}
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert set(names.values()) == {"prefill", "decode"}
    chunks = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(chunks) == len(simulated.trace.kernels)
    for track in names:
        ends = 0.0
        for event in sorted((e for e in chunks if e["tid"] == track), key=lambda event: event["ts"]):
            assert event["ts"] >= ends - 0.2, "one kernel at a time"
            ends = event["ts"] + event["dur"]
    assert {event["cat"] for event in chunks} == {"reactive", "proactive"}


@pytest.mark.parametrize("machine", ["core-ultra-5-125h", "core-ultra-5-125h-cpu"])
def test_a_trace_tells_the_kernels_of_promoted_requests(machine: str) -> None:
    simulated = simulation(replace(Policy(), promote_after_s=0.5), machine)
    simulated.submit(SimulatedRequest(900, 40, Priority.PROACTIVE))
    for at in (0.1, 0.7):
        simulated.submit(SimulatedRequest(300, 20, Priority.REACTIVE), at)
    simulated.run()
    kernels = simulated.trace.kernels
    aged = [kernel for kernel in kernels if "request-0" in kernel.request_ids and kernel.started >= 0.5]
    assert [kernel for kernel in kernels if kernel.promoted] == aged
    assert 0 < len(aged) < len([kernel for kernel in kernels if "request-0" in kernel.request_ids])
    events = [event for event in simulated.trace.to_chrome()["traceEvents"] if event["ph"] == "X"]
    assert [event["args"].get("promoted", False) for event in events] == [each.promoted for each in kernels]


def test_a_trace_drops_the_oldest_kernels() -> None:
    simulated = mixed(Policy())
    short = Trace(limit=10)
    short._kernels.extend(simulated.trace.kernels)
    assert short.kernels == simulated.trace.kernels[-10:]
