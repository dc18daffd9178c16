"""Native calls at the end of a process, and in forked children."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Iterator

import pytest

from agentrt.concurrency import native_calls as module
from agentrt.concurrency.native_calls import NativeCalls
from agentrt.errors import ForkedProcessError, RuntimeClosedError
from tests.patience import until


def test_the_end_waits_for_calls_in_progress_and_refuses_others() -> None:
    calls = NativeCalls()
    entered, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def call() -> None:
        with calls, calls:
            entered.set()
            assert leave.wait(60)
            order.append("called")

    def end() -> None:
        calls.end()
        order.append("ended")

    calling, ending = threading.Thread(target=call), threading.Thread(target=end)
    calling.start()
    assert entered.wait(60)
    ending.start()
    until(lambda: calls._ending)
    with pytest.raises(RuntimeClosedError, match="the process ends"):
        calls.check()
    with pytest.raises(RuntimeClosedError), calls:
        pass
    leave.set()
    calling.join()
    ending.join()
    assert order == ["called", "ended"]


def test_the_end_waits_for_no_call_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EXIT_S", 0.01)
    calls = NativeCalls()
    with calls:
        calls.end()


def test_a_call_that_raises_has_ended() -> None:
    calls = NativeCalls()
    with pytest.raises(LookupError), calls:
        raise LookupError
    calls.end()
    assert calls._running == 0


def test_a_forked_child_makes_no_calls_if_its_parent_made_some() -> None:
    calls = NativeCalls()
    calls.note_fork()
    assert not calls.forked
    with calls:
        calls.note_fork()
    assert calls.forked
    with pytest.raises(ForkedProcessError, match="spawn"):
        calls.check()


@pytest.mark.slow
def test_what_owns_native_objects_is_not_destroyed_in_a_forked_child() -> None:
    class Owner:
        pass

    calls, kept, freed = NativeCalls(), Owner(), Owner()
    calls.keep_in_forks(kept)
    destroyed = [weakref.ref(kept), weakref.ref(freed)]
    calls.note_fork()
    del kept, freed
    gc.collect()
    assert [owner() is None for owner in destroyed] == [False, True]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeCalls]:
    """Those of the process in this test; afterwards the handlers of signals are as they were."""
    calls = NativeCalls()
    monkeypatch.setattr(module, "native_calls", calls)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    yield calls
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="there are no forks")
def test_a_forked_child_that_does_not_end_is_ended(
    calls: NativeCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms: list[int] = []
    monkeypatch.setattr(signal, "alarm", alarms.append)
    with calls:
        calls.note_fork()
    module._end_process()
    assert alarms == [5]
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="sets SIGALRM")
def test_the_end_leaves_handlers_of_the_application_alone(calls: NativeCalls) -> None:
    def handler(*args: object) -> None:
        raise AssertionError

    for kept, after in ((handler, handler), (signal.default_int_handler, signal.SIG_DFL)):
        signal.signal(signal.SIGINT, kept)
        module._end_process()
        assert signal.getsignal(signal.SIGINT) == after
    with pytest.raises(RuntimeClosedError):
        calls.check()
