"""Expected times to the first token: what they learn from, and when they are not known."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from agentrt.bench.simulation.platform import simulate
from agentrt.bench.simulation.simulation import SimulatedRequest, Simulation
from agentrt.priority import Priority
from agentrt.runtime.engine.engine_status import RequestStatus
from agentrt.runtime.engine.trace import TracedRequest
from agentrt.runtime.scheduler.policy import Policy
from agentrt.runtime.scheduler.sequence import SequenceState
from agentrt.runtime.serving.live.expectation import Expectation


def status(name: str, left_s: float, first_token: float | None = None, **more: Any) -> RequestStatus:
    whole = {
        "app": "",
        "context_id": "",
        "reactive": False,
        "state": SequenceState.WAITING,
        "promoted": False,
        "arrived": 0.0,
        "prompt_tokens": 1,
        "computed_tokens": 0,
        "sampled_tokens": 0,
        "tokens_left": 1,
        "blocks": (),
    }
    return RequestStatus(request_id=name, prefill_left_s=left_s, first_token=first_token, **whole | more)


def ended(name: str, first_token: float | None) -> TracedRequest:
    return TracedRequest(name, "", False, 0.0, 0.0, first_token, 0.0, "stop")


def user(name: str = "user") -> RequestStatus:
    """A reactive request that decodes, of which nobody knows for how long."""
    return status(name, 0.0, first_token=0.0, reactive=True, state=SequenceState.DECODE)


def learned(*waits: tuple[float, float], seen: bool = False) -> Expectation:
    """What has seen requests of so much work wait for so long, one after the other, 100 s apart.

    The last frame of each has it with a first token, if these were ``seen``; else it has ended meanwhile.
    """
    expectation = Expectation()
    expectation.seconds([], 0.0)
    for number, (work_s, waited_s) in enumerate(waits):
        name, now = str(number), 1.0 + 100.0 * number
        expectation.seconds([status(name, work_s, arrived=now)], now)
        last = [status(name, 0.0, first_token=now + waited_s)] if seen else []
        expectation.seconds(last, now + 90, () if seen else [ended(name, now + waited_s)])
    return expectation


def told(expectation: Expectation, work_s: float, now: float = 9000.0, **more: Any) -> float | None:
    """What a request that has just come is told."""
    name = f"next {more}"
    return expectation.seconds([status(name, work_s, arrived=now, **more)], now)[name]


def test_requests_wait_for_those_before_them() -> None:
    requests = [status("a", 0.2), status("b", 0.0, first_token=1.0), status("c", 0.1), status("d", 0.3)]
    expected = Expectation().seconds(requests, 0.0)
    assert expected == pytest.approx({"a": 0.2, "c": 0.3, "d": 0.6})


@pytest.mark.parametrize(
    ("waits", "work_s", "expected"),
    [
        ([(0.1, 0.5)] * 40, 0.1, 0.5),
        ([(0.0003, 0.4)] * 9, 0.0001, 0.4),  # steps too short to estimate are learned from, too
        ([(0.01, 4.0)] * 20, 2.0, 2.0 + 3.99),  # a factor of little work says nothing of more
        ([(0.1, 60.0 if number % 10 == 0 else 0.2) for number in range(1, 21)], 0.1, 0.2),
    ],
    ids=["longer", "short steps", "waits for memory", "one starved"],
)
@pytest.mark.parametrize("seen", [True, False])
def test_what_most_requests_waited_is_expected_again(
    waits: list[tuple[float, float]], work_s: float, expected: float, seen: bool
) -> None:
    """Also where answers are so short that no frame has them with a first token."""
    expectation = learned(*waits, seen=seen)
    assert told(expectation, work_s) == pytest.approx(expected)
    assert told(expectation, 0.1, reactive=True) == pytest.approx(0.1), "each priority has its own"


def test_what_was_estimated_before_any_first_token_is_not_said_to_be_late() -> None:
    expectation = Expectation()
    expectation.seconds([], 0.0)
    burst = [status(name, 0.1, arrived=1.0) for name in "ab"]
    assert expectation.seconds(burst, 1.0)["a"] == pytest.approx(0.1)
    assert expectation.uncompared == set()
    assert expectation.seconds(burst, 9.0) == {"a": None, "b": None}
    assert expectation.uncompared == {"a", "b"}
    # Also of one behind them whose own estimate has something to go by.
    behind = [burst[0], status("c", 0.1, arrived=9.15)]
    assert expectation.seconds(behind, 9.2, [ended("b", 9.1)]) == {"a": None, "c": None}
    assert expectation.uncompared == {"a", "c"}
    expectation.seconds([], 10.0, [ended(name, 9.9) for name in "ac"])
    assert expectation.seconds([status("e", 0.1, arrived=20.0)], 20.0)["e"] is not None
    assert expectation.seconds([status("e", 0.1, arrived=20.0)], 99.0)["e"] is None
    assert expectation.uncompared == set()


@pytest.mark.parametrize("done_s", [0.0001, 0.05])
def test_a_pause_that_is_over_is_not_the_pace(done_s: float) -> None:
    expectation = learned(*[(0.1, 0.3)] * 20)
    for now in (3000.0, 3020.0):
        found = expectation.seconds([user(), status("note", 0.1, arrived=3000.0)], now)["note"]
    assert found is None
    found = expectation.seconds([user(), status("note", 0.1 - done_s, arrived=3000.0)], 3030.0)["note"]
    assert found is None if done_s < 0.01 else found == pytest.approx(0.15)


@pytest.mark.check
def test_estimates_are_of_the_right_order_where_requests_wait_for_memory() -> None:
    """A user and seven background clients, on a machine whose KV blocks suffice for two of them."""
    pairs = [pair for seed in range(2) for pair in told_and_true(seed)]
    assert len(pairs) > 2000
    ratios = sorted(found / true for found, true in pairs)
    assert 0.5 < ratios[len(ratios) // 2] < 2
    assert ratios[len(ratios) * 9 // 10] < 6
    most, longest = (max(column) for column in zip(*pairs, strict=True))
    assert most < longest


def told_and_true(seed: int) -> list[tuple[float, float]]:
    """What was told five times a second, and what was true, of the requests of 200 s."""
    platform, graph = simulate("simulated:core-ultra-5-125h", max_chunk_tokens=256, quantum_s=0.025)
    simulation = Simulation(platform, graph, Policy(), blocks=60, max_batch_size=8)
    rng, clock, end = random.Random(seed), simulation.clock, 200.0

    def client(priority: Priority, prompt: tuple[int, int], answer: tuple[int, int], pause_s: float) -> None:
        def ask(_: object = None) -> None:
            at = clock.now + rng.uniform(0, 2 * pause_s)
            simulation.submit(SimulatedRequest(rng.randint(*prompt), rng.randint(*answer), priority), at, ask)

        ask()

    client(Priority.REACTIVE, (20, 200), (10, 40), 3.0)
    for _ in range(7):
        client(Priority.PROACTIVE, (50, 400), (5, 60), 0.5)
    expectation, seen = Expectation(), 0
    told: list[tuple[str, float, float]] = []
    first: dict[str, float] = {}
    while clock.now < end:
        clock.advance_to(clock.now + 0.2)
        outputs, seen = simulation.outputs[seen:], len(simulation.outputs)
        requests = [
            status(
                str(each.arrived),
                simulation.scheduler.queues.prefill_seconds_left(each),
                first_token=simulation._alive[each].first_token,
                reactive=each.priority is Priority.REACTIVE,
                arrived=each.arrived,
            )
            for each in simulation.scheduler.queues.in_serving_order(100)
        ]
        done = [
            replace(
                ended(str(each.arrived), each.first_token),
                reactive=each.request.priority is Priority.REACTIVE,
            )
            for each in outputs
        ]
        first |= {each.request_id: each.first_token for each in (*requests, *done) if each.first_token}
        expected = expectation.seconds(requests, clock.now, done)
        told += [(name, clock.now, left) for name, left in expected.items() if left is not None]
    return [(left, first[name] - now) for name, now, left in told if name in first and first[name] > now]


def test_what_reactive_work_starves_is_not_known_until_it_is_served() -> None:
    expectation = Expectation()
    expectation.seconds([user()], 0.0)
    now, left_s = 1.0, 0.3
    first = expectation.seconds([user(), status("note", left_s, arrived=now)], now)
    assert first["note"] == pytest.approx(0.3)
    while now < 30.0:
        now += 0.2
        found = expectation.seconds([user(), status("note", left_s, arrived=1.0)], now)["note"]
        if now > 1.3:
            assert found is None, "its time has passed, and nothing has been done"
        else:
            assert found == pytest.approx(1.3 - now), "the time that is left"
    now, left_s = now + 0.2, 0.2
    found = expectation.seconds([user(), status("note", left_s, arrived=1.0)], now)["note"]
    assert found == pytest.approx(2 * (now - 1.0)), "a third of the work took so long"
    assert expectation.seconds([user(), status("note", left_s, arrived=1.0)], now + found + 1)["note"] is None


def test_nothing_behind_one_that_is_not_known_is_known() -> None:
    expectation = Expectation()
    expectation.seconds([], 0.0)
    waiting = [status("a", 0.1, arrived=1.0), status("b", 0.1, arrived=1.0)]
    expectation.seconds(waiting, 1.0)
    later = [*waiting, status("c", 0.1, arrived=9.0)]
    assert expectation.seconds(later, 9.0) == {"a": None, "b": None, "c": None}
    urgent = [*later, status("user", 0.1, reactive=True, arrived=9.1)]
    assert expectation.seconds(urgent, 9.1)["user"] is not None, "it goes before them"


def test_reactive_work_that_keeps_coming_never_has_others_served_soon() -> None:
    """Every half second a prompt of 0.3 s goes first. The estimate does not begin anew with each."""
    expectation = Expectation()
    expectation.seconds([], 0.0)
    found = []
    for number in range(100):
        now = 1.0 + 0.5 * number
        note = status("note", 0.2, arrived=1.0)
        asked = status(f"user {number}", 0.3, reactive=True, arrived=now)
        found.append(expectation.seconds([asked, note], now)["note"])
        answers = status(f"user {number}", 0.0, first_token=now + 0.3, reactive=True)
        found.append(expectation.seconds([answers, note], now + 0.4)["note"])
    assert found[0] is not None
    assert found[10:] == [None] * 190


def test_a_queue_that_moves_has_an_end() -> None:
    """Four requests of 0.1 s each, for which decodes between them double the time."""
    expectation = Expectation()
    expectation.seconds([], 0.0)
    told: list[float | None] = []
    for tenth in range(8):
        left = [min(0.1, max(0.0, 0.1 * (number + 1) - tenth / 20)) for number in range(4)]
        rows = [status(str(number), work, arrived=1.0) for number, work in enumerate(left) if work]
        told.append(expectation.seconds(rows, 1.0 + tenth / 10)["3"])
    assert told == pytest.approx([0.4, *(each / 10 for each in range(7, 0, -1))])


def test_a_page_that_is_opened_late_knows_nothing_of_what_has_waited_for_long() -> None:
    expectation = Expectation()
    waiting = [user(), status("note", 0.1, arrived=0.0)]
    assert expectation.seconds(waiting, 600.0) == {"note": None}
    fresh = expectation.seconds([user(), status("new", 0.1, arrived=600.1)], 600.1)
    assert fresh == pytest.approx({"new": 0.1})


def test_nothing_is_kept_of_requests_that_have_ended() -> None:
    expectation = Expectation()
    for number in range(100):
        expectation.seconds([status(str(number), 0.1, arrived=float(number))], float(number))
    assert len(expectation._waits) == 1
    expectation.seconds([], 200.0, [ended("99", None)])
    assert not expectation._waits
