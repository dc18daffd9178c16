"""Expected times to the first token learn from what came of earlier ones."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.runtime.engine.request_status import RequestStatus
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


def test_requests_wait_for_those_before_them() -> None:
    requests = [status("a", 0.2), status("b", 0.0, first_token=1.0), status("c", 0.1), status("d", 0.3)]
    expected = Expectation().seconds(requests, 2.0)
    assert expected == pytest.approx({"a": 0.2, "c": 0.3, "d": 0.6})


def test_what_took_longer_is_expected_to_take_longer_again() -> None:
    expectation = Expectation()
    for number in range(40):
        name, now = str(number), 10.0 * number
        expectation.seconds([status(name, 0.1)], now)
        expectation.seconds([status(name, 0.0, first_token=now + 0.5)], now + 1)
    assert expectation.seconds([status("next", 0.1)], 1000.0)["next"] == pytest.approx(0.5, rel=0.01)
    reactive = expectation.seconds([status("user", 0.1, reactive=True)], 1000.0)
    assert reactive["user"] == pytest.approx(0.1), "each priority has its own"


def test_nothing_is_kept_of_requests_that_have_ended() -> None:
    expectation = Expectation()
    for number in range(100):
        expectation.seconds([status(str(number), 0.1)], float(number))
    assert len(expectation._first_seen) == 1
    expectation.seconds([], 200.0)
    assert not expectation._first_seen
