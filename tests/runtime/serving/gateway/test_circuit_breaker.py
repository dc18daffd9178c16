from __future__ import annotations

from agentrt.runtime.serving.gateway.circuit_breaker import CircuitBreaker


def test_it_opens_after_failures_in_a_row_and_lets_one_call_through_after_each_pause() -> None:
    now = 0.0
    breaker = CircuitBreaker(3, 5.0, lambda: now)
    for _ in range(2):
        breaker.failed()
        breaker.failed()
        assert breaker.allows()
        breaker.succeeded()
    for _ in range(3):
        assert not breaker.is_open
        breaker.failed()
    assert breaker.is_open
    assert not breaker.allows()
    now = 5.0
    assert [breaker.allows() for _ in range(3)] == [True, False, False]
    breaker.failed()  # the trial
    now = 9.9
    assert not breaker.allows()
    now = 10.0
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
    assert not breaker.is_open
