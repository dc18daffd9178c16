"""Expected times to the first token: what they learn from, and when they are not known."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.runtime.engine.request_status import RequestStatus
from agentrt.runtime.engine.trace import TracedRequest
from agentrt.runtime.live.expectation import Expectation
from agentrt.runtime.scheduler.sequence import SequenceState


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


def test_requests_wait_for_those_before_them() -> None:
    requests = [status("a", 0.2), status("b", 0.0, first_token=1.0), status("c", 0.1), status("d", 0.3)]
    expected = Expectation().seconds(requests, 0.0)
    assert expected == pytest.approx({"a": 0.2, "c": 0.3, "d": 0.6})


@pytest.mark.parametrize("seen_to_the_end", [True, False])
def test_what_took_longer_is_expected_to_take_longer_again(seen_to_the_end: bool) -> None:
    """Also where answers are so short that no frame has them with a first token."""
    expectation = Expectation()
    expectation.seconds([], 0.0)
    for number in range(40):
        name, now = str(number), 10.0 * number
        expectation.seconds([status(name, 0.1, arrived=now)], now)
        if seen_to_the_end:
            expectation.seconds([status(name, 0.0, first_token=now + 0.5)], now + 1)
        else:
            expectation.seconds([], now + 1, [ended(name, now + 0.5)])
    now = 1000.0
    assert expectation.seconds([status("next", 0.1, arrived=now)], now)["next"] == pytest.approx(0.5)
    reactive = expectation.seconds([status("user", 0.1, reactive=True, arrived=now)], now)
    assert reactive["user"] == pytest.approx(0.1), "each priority has its own"


def test_steps_too_short_to_estimate_are_learned_from_too() -> None:
    expectation = Expectation()
    expectation.seconds([], 0.0)
    for number in range(1, 10):
        now = float(number)
        expectation.seconds([status(str(number), 0.0003, arrived=now)], now)
        expectation.seconds([], now + 0.5, [ended(str(number), now + 0.4)])
    assert expectation.seconds([status("next", 0.0001, arrived=20.0)], 20.0)["next"] == pytest.approx(0.4)


def test_one_that_was_starved_tells_nothing_of_the_others() -> None:
    expectation = Expectation()
    expectation.seconds([], 0.0)
    for number in range(1, 21):
        now = 100.0 * number
        expectation.seconds([status(str(number), 0.1, arrived=now)], now)
        waited = 60.0 if number % 10 == 0 else 0.2
        expectation.seconds([], now + waited, [ended(str(number), now + waited)])
    now = 5000.0
    assert expectation.seconds([status("next", 0.1, arrived=now)], now)["next"] == pytest.approx(0.2)


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
