"""Apps share a priority level: who waits for how long, who yields, and what an app alone notices of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.priority import Priority
from agentrt.runtime.scheduler.fair_queue import FairQueue, Ranking
from agentrt.runtime.scheduler.policy import POLICIES, Policy
from agentrt.runtime.scheduler.sequence import Sequence, SequenceState
from tests.hypothesis_profiles import examples
from tests.runtime.scheduler.machine import Kernel, Machine, policy

MAIL, NOTES, CHAT = b"mail", b"notes", b"chat"
PROACTIVE, REACTIVE = Priority.PROACTIVE, Priority.REACTIVE
WEIGHT = Policy().sampled_token_weight


class Load:
    """A machine, and requests whose prompts have nothing in common."""

    def __init__(self, **settings: Any) -> None:
        self.machine = Machine(**{"batch": 16, "blocks": 4096} | settings)
        self.machine.watch = self._count
        self.served: Counter[str] = Counter()
        """Tokens in the batches of each app, by weight."""
        self._used = 0

    def _count(self, kernel: Kernel) -> None:
        if kernel.scheduled.kernel.index == 0:
            for sequence, length, *_ in kernel.chunks:
                self.served[sequence.app] += length if sequence.needs_prefill else WEIGHT * length

    def add(self, app: bytes, prompt: int, answer: int, priority: Priority = REACTIVE) -> Sequence:
        tokens = list(range(self._used, self._used + prompt))
        self._used += prompt
        return self.machine.add(tokens, priority, app=app, answer=answer)

    def add_many(self, number: int, app: bytes, prompt: int, answer: int, **more: Any) -> list[Sequence]:
        return [self.add(app, prompt, answer, **more) for _ in range(number)]

    def batch(self) -> Kernel:
        """Run to the end of the next batch, and return its last kernel."""
        while True:
            kernel = self.machine.step()
            assert kernel is not None, "nothing runs"
            if kernel.ends_batch:
                return kernel

    def batches_until(self, sequence: Sequence, times: dict[Sequence, float]) -> int:
        """Run until ``times`` has the sequence; return how many batches ended."""
        batches = 0
        while sequence not in times:
            self.batch()
            batches += 1
        return batches

    def service(self, batches: int) -> Counter[str]:
        """Run ``batches`` batches; return the weighted tokens that each app was served."""
        before = self.served.copy()
        for _ in range(batches):
            self.batch()
        return self.served - before


def test_the_serving_order_has_also_those_that_wait_for_the_end_of_a_turn() -> None:
    load = Load(batch=2, policy=policy(sharing_apps=1))
    sequences = [load.add(app, 5, 20) for app in (MAIL, MAIL, MAIL, NOTES, NOTES, CHAT)]
    later = load.add(CHAT, 5, 20, PROACTIVE)
    load.batch()
    scheduler = load.machine.scheduler
    order = scheduler.queues.in_serving_order(100)
    assert set(order) == {*sequences, later}
    assert order[-1] is later
    waits = [sequence.state is SequenceState.WAITING for sequence in order]
    assert waits == sorted(waits), "the running ones come first"
    assert waits.count(True) > len(scheduler.queues.by_level[0].first(100))
    for most in range(8):
        assert scheduler.queues.in_serving_order(most) == order[:most]
    load.machine.batches()
    assert scheduler.queues.in_serving_order(100) == []


@pytest.mark.slow
class TestOneRequestBesideMany:
    @pytest.mark.matrix
    @pytest.mark.parametrize("priority", Priority)
    @pytest.mark.parametrize("xpus", [1, 2])
    def test_it_waits_for_three_batches(self, priority: Priority, xpus: int) -> None:
        """The one that runs, one of decodes whose gap has passed, and its own."""
        load = Load(xpus=xpus)
        many = load.add_many(40, MAIL, 5, 120, priority=priority)
        load.machine.decode(many[:16])
        load.service(40)
        load.machine.step()
        running = load.machine.scheduler.statistics().running
        one = load.add(CHAT, 5, 1, priority)
        assert load.batches_until(one, load.machine.done) <= 3
        assert not any(sequence in load.machine.done for sequence in many)
        assert load.machine.scheduler.statistics().evictions == 0
        assert load.machine.scheduler.statistics().running == running, "it took none of the others with it"
        load.machine.batches(20_000)
        assert all(sequence in load.machine.done for sequence in many)

    def test_its_answer_goes_on_with_every_batch(self) -> None:
        load = Load()
        many = load.add_many(40, MAIL, 5, 300)
        load.machine.decode(many[:16])
        one = load.add(CHAT, 5, 30)
        load.machine.decode([one])
        assert load.batches_until(one, load.machine.done) == 29

    def test_a_long_prompt_lets_a_short_one_go_first(self) -> None:
        load = Load()
        long = load.add(MAIL, 400, 1)
        load.batch()
        short = load.add(CHAT, 8, 1)
        assert load.batches_until(short, load.machine.done) <= 2
        assert long.computed_tokens < 100

    def test_who_yields_a_place_keeps_what_it_has_computed(self) -> None:
        load = Load(batch=2)
        first, second = load.add_many(2, MAIL, 5, 40)
        load.machine.decode([first, second])
        one = load.add(CHAT, 5, 10)
        load.batches_until(one, load.machine.done)
        load.machine.batches()
        computed = Counter[int]()
        for kernel in load.machine.log:
            if kernel.ends_batch:
                computed.update({chunk.sequence.id: chunk.length for chunk in kernel.chunks})
        assert computed == {first.id: 44, second.id: 44, one.id: 14}

    def test_one_answer_that_holds_all_memory_is_evicted_after_a_turn(self) -> None:
        load = Load(blocks=40, policy=policy(turn_tokens=16))
        long = load.add(MAIL, 140, 20)
        load.machine.decode([long])
        one = load.add(CHAT, 24, 1)
        for _ in range(7):
            load.batch()
            assert long.state is SequenceState.DECODE, "its app is not ahead by 8 sampled tokens"
        assert load.batches_until(one, load.machine.done) <= 5
        assert load.machine.scheduler.statistics().evictions == 1
        load.machine.until(long)

    def test_beside_one_place(self) -> None:
        load = Load(batch=1)
        load.machine.decode([load.add(MAIL, 5, 300)])
        one = load.add(CHAT, 5, 20)
        assert load.batches_until(one, load.machine.first) <= 3
        assert load.batches_until(one, load.machine.done) <= 2 * 20


@pytest.mark.slow
class TestShares:
    def test_the_places_of_an_app_with_few_requests_go_to_the_others(self) -> None:
        load = Load()
        load.add_many(3, CHAT, 5, 500)
        load.add_many(40, MAIL, 5, 500)
        load.add_many(40, NOTES, 5, 500)
        load.service(60)
        places = Counter(chunk.sequence.app for chunk in load.batch().chunks)
        assert places["chat"] == 3
        assert {places["mail"], places["notes"]} <= {6, 7}

    @pytest.mark.check
    def test_idling_earns_no_credit(self) -> None:
        load = Load()
        load.add_many(40, MAIL, 5, 1000)
        load.add(CHAT, 5, 1)
        load.service(300)
        load.add_many(40, CHAT, 5, 1000)
        served = load.service(100)
        assert served["mail"] > 0.4 * served.total()

    def test_promoted_work_is_shared(self) -> None:
        load = Load(batch=2, policy=policy(promote_after_s=0.5))
        old = load.add_many(8, MAIL, 5, 400, priority=PROACTIVE)
        load.machine.decode(old[:2])
        new = load.add(CHAT, 5, 1, PROACTIVE)
        assert load.machine.until(new) < new.arrived + 0.7
        assert not any(sequence in load.machine.done for sequence in old)

    def test_the_last_of_the_app_with_most_is_shed(self) -> None:
        load = Load(policy=policy(max_waiting=10))
        load.add(CHAT, 50, 1)
        many = load.add_many(9, MAIL, 5, 1)
        load.add(NOTES, 90, 1)
        assert load.machine.given_up == [many[-1]]


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 50))))
def test_items_are_sorted_by_their_last_keys(changes: list[tuple[int, int | None]]) -> None:
    ranking: Ranking[int] = Ranking()
    keys: dict[int, tuple[int, int]] = {}
    for item, key in changes:
        if key is None:
            ranking.discard(item)
            keys.pop(item, None)
        else:
            keys[item] = (key, item)
            ranking.put(item, keys[item])
    expected = sorted(keys, key=keys.__getitem__)
    assert ranking.first(100) == expected
    assert ranking.first(2) == expected[:2]
    assert [ranking[place] for place in range(len(ranking))] == expected
    assert all(item in ranking and ranking.key(item) == key for item, key in keys.items())
    ranking.check_integrity()


class TestCounters:
    def new_queue(self, **served: int) -> tuple[FairQueue, dict[str, Sequence]]:
        """A queue in which one sequence of each app runs, for which as many tokens were computed."""
        queue, sequences = FairQueue(policy(), max_batch_size=2), {}
        for number, app in enumerate(served):
            sequences[app] = Sequence(number, REACTIVE, [0] * 2000, app=app)
            queue.arrive(sequences[app])
            queue.run(sequences[app])
        for app, tokens in served.items():
            queue.charge(sequences[app], tokens, 1.0)
        return queue, sequences

    def counter_of_next(self, queue: FairQueue, app: str) -> float:
        """The counter of an app that sends a request now."""
        queue.arrive(Sequence(99, REACTIVE, [0], app=app))
        return queue._shares[app].served

    def test_who_comes_starts_with_the_last_of_those_that_lack_places(self) -> None:
        queue, sequences = self.new_queue(mail=500, notes=100)
        queue.note_left_out([sequences["notes"]])
        assert self.counter_of_next(queue, "chat") == 100
        assert self.counter_of_next(queue, "notes") == 100, "it has a claim to more"
        assert self.counter_of_next(queue, "mail") == 500

    def test_where_nobody_lacks_anything_all_are_equal(self) -> None:
        queue, _ = self.new_queue(mail=500, notes=100)
        assert self.counter_of_next(queue, "chat") == 500
        assert self.counter_of_next(queue, "notes") == 500

    def test_a_lead_outlasts_the_last_request_until_others_have_caught_up(self) -> None:
        queue, sequences = self.new_queue(mail=500, notes=100)
        queue.note_left_out([sequences["notes"]])
        queue.stop(sequences["mail"])
        assert self.counter_of_next(queue, "chat") == 100
        assert self.counter_of_next(queue, "mail") == 500
        queue.charge(sequences["notes"], 600, 1.0)
        assert self.counter_of_next(queue, "chat") == 600
        assert set(queue._shares) == {"notes", "chat"}, "a lead that is none any more is forgotten"


class Request(NamedTuple):
    app: bytes
    prompt: int
    answer: int
    priority: Priority
    batches: int
    """Batches that end before it arrives."""


@st.composite
def requests_of(draw: Callable[..., Any], apps: tuple[bytes, ...]) -> list[Request]:
    one = st.builds(
        Request,
        st.sampled_from(apps),
        st.integers(1, 60),
        st.integers(1, 30),
        st.sampled_from(Priority),
        st.sampled_from([0, 0, 0, 1, 5]),
    )
    found: list[Request] = draw(st.lists(one, min_size=1, max_size=30))
    return found


def history(requests: list[Request], settings: dict[str, Any]) -> list[tuple[float, list[tuple[int, int]]]]:
    """Serve ``requests``; return when each kernel started, and its sequences with the lengths of chunks."""
    load = Load(**settings)
    for request in requests:
        for _ in range(request.batches):
            load.machine.step()
        load.add(request.app, request.prompt, request.answer, request.priority)
    load.machine.batches(50_000)
    return [
        (kernel.start, [(chunk.sequence.id, chunk.length) for chunk in kernel.chunks])
        for kernel in load.machine.log
    ]


@pytest.mark.hypothesis
@pytest.mark.parametrize("xpus", [1, 2])
def test_an_app_alone_is_served_as_if_there_were_no_shares(xpus: int) -> None:
    @examples(30)
    @given(requests=requests_of((MAIL,)), blocks=st.sampled_from([30, 60, 500]), batch=st.integers(1, 5))
    def holds(requests: list[Request], blocks: int, batch: int) -> None:
        settings: dict[str, Any] = {"xpus": xpus, "blocks": blocks, "batch": batch}
        shared = policy(promote_after_s=0.3, turn_tokens=16, sharing_apps=2)
        alone = replace(shared, share_apps=False)
        assert history(requests, settings | {"policy": shared}) == history(
            requests, settings | {"policy": alone}
        )

    holds()


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "agent-xpu"])
def test_the_schemes_of_comparison_serve_all_apps_as_one(name: str) -> None:
    requests = [
        Request(app, 5 + 7 * number % 30, 10, priority, number % 3)
        for number, (app, priority) in enumerate([(MAIL, REACTIVE), (CHAT, PROACTIVE), (NOTES, REACTIVE)] * 6)
    ]
    one_app = [request._replace(app=MAIL) for request in requests]
    settings = {"policy": POLICIES[name], "batch": 4}
    assert history(requests, settings) == history(one_app, settings)


@pytest.mark.check
@pytest.mark.hypothesis
def test_service_of_backlogged_apps_differs_by_at_most_two_turns() -> None:
    """Whatever lengths their requests have, and from wherever one counts."""

    @examples(20)
    @given(
        lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(2, 60)), min_size=2, max_size=6),
        batch=st.integers(2, 8),
        turn=st.sampled_from([64, 256]),
    )
    def holds(lengths: list[tuple[int, int]], batch: int, turn: int) -> None:
        load = Load(batch=batch, policy=policy(turn_tokens=turn))
        apps = {b"app %d" % number: each for number, each in enumerate(lengths)}
        queue_of = {app: load.add_many(3 * batch, app, *each) for app, each in apps.items()}
        for _ in range(250):
            load.batch()
            for app, each in apps.items():
                alive = [s for s in queue_of[app] if s.state is not SequenceState.FINISHED]
                queue_of[app] = alive + load.add_many(3 * batch - len(alive), app, *each)
            served = [load.served[app.decode()] for app in apps]
            assert max(served) - min(served) <= 2 * turn, load.served

    holds()


@pytest.mark.check
def test_many_apps_take_turns() -> None:
    """Of hundreds of apps few run at once, in the order in which they came, and no queue is searched."""
    load = Load(batch=4, policy=policy(sharing_apps=4))
    sequences = [load.add(b"app %d" % number, 6, 20) for number in range(200)]
    most = 0
    while len(load.machine.done) < len(sequences):
        load.batch()
        most = max(most, load.machine.scheduler.statistics().running)
    assert most <= 8
    ends = sorted(sequences, key=lambda sequence: load.machine.done[sequence])
    assert all(abs(place - sequence.id) <= 8 for place, sequence in enumerate(ends))


@pytest.mark.check
@pytest.mark.slow
def test_long_answers_of_many_apps_end_their_turns() -> None:
    load = Load(batch=4, policy=policy(turn_tokens=64, sharing_apps=4))
    long = [load.add(b"app %d" % number, 6, 500) for number in range(4)]
    load.machine.decode(long)
    one = load.add(CHAT, 6, 1)
    # Each of the four has its turn of 32 tokens.
    assert load.batches_until(one, load.machine.done) <= 34
    load.machine.batches(20_000)
