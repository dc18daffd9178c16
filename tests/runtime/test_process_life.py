"""Processes that fork, and processes that end, while models are open, opened or used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

START = """
import asyncio, logging, os, signal, sys, threading
from agentrt import DraftRequest
from agentrt.errors import ForkedProcessError, RuntimeClosedError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.speculators import LocalSpeculator

MESSAGES = [{"role": "user", "content": "Hello!"}]
logging.disable(logging.WARNING)  # that the profile was measured on a busy machine
"""

FORK = """
runtime = LocalRuntime.open("nano")
service = runtime.bind("app")
context = service.new_context()
runtime.generate(MESSAGES, max_tokens=2)
speculator = LocalSpeculator(DRAFT_DIRECTORY, threads=1)

def in_child(act):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # kills what hangs
        try:
            act()
        except ForkedProcessError:
            os._exit(7)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

async def stream():
    async for _ in runtime.stream(MESSAGES):
        pass

async def draft():
    async for _ in speculator.drafts(DraftRequest(MESSAGES, [])):
        pass

refused = [
    lambda: runtime.generate(MESSAGES, max_tokens=2),
    lambda: next(runtime.iter_stream(MESSAGES)),
    lambda: asyncio.run(runtime.agenerate(MESSAGES)),
    lambda: asyncio.run(stream()),
    lambda: runtime.count_tokens("hello"),
    lambda: runtime.statistics(),
    lambda: runtime.suspend(),
    lambda: service.new_context(),
    lambda: service.call(context, "hello"),
    lambda: service.delete(context),
    lambda: LocalRuntime.open("nano"),
    lambda: LocalSpeculator(DRAFT_DIRECTORY),
    lambda: asyncio.run(draft()),
]
print([in_child(act) for act in refused])
print([in_child(act) for act in (runtime.close, lambda: None)])
print(runtime.generate(MESSAGES, max_tokens=2).finish_reason, len(service.contexts()))
sys.stdout.flush()
child = os.fork()
if child == 0:
    signal.alarm(60)
    sys.exit(5)  # as any process ends, with all that Python and OpenVINO do then
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def ended(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "faulthandler", "-c", START + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.check
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_gets_typed_errors_and_ends() -> None:
    done = ended(FORK)
    *printed, ended_with = done.stdout.splitlines()
    assert (done.returncode, printed, done.stderr) == (0, [str([7] * 13), str([0, 0]), "length 1"], "")
    # The alarm of a forked child's end, where TBB was forked with a lock held.
    assert ended_with in ("5", str(-signal.SIGALRM))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_forked_before_a_model_was_opened_can_open_one() -> None:
    done = ended(
        """
if os.fork() == 0:
    with LocalRuntime.open("nano") as runtime:
        os._exit(runtime.generate(MESSAGES, max_tokens=2).finish_reason == "length")
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


OPENING = """
import atexit, concurrent.futures.thread as futures
begun, ended = threading.Event(), threading.Event()
at_the_end = sys.argv[1] == "end"
steps = iter(range(0 if at_the_end else int(sys.argv[1])))
def on_step(step):
    if next(steps, None) is None:
        begun.set()
    while at_the_end and not futures._shutdown:  # from here on Python starts no thread for a pool
        pass
def open_it():
    try:
        LocalRuntime.open("nano", on_step=on_step)
    except RuntimeClosedError:
        pass
    finally:
        begun.set()
        ended.set()
threading.Thread(target=open_it, daemon=True).start()
begun.wait()
if at_the_end:
    atexit.register(ended.wait)  # before the end is noted
"""

LOADING_A_SPECULATOR = """
begun = threading.Event()
def load():
    begun.set()
    try:
        LocalSpeculator(DRAFT_DIRECTORY, threads=1)
    except RuntimeClosedError:
        pass
threading.Thread(target=load, daemon=True).start()
begun.wait()
"""

TOKENIZING = """
runtime = LocalRuntime.open("nano")
begun = threading.Event()
def count():
    begun.set()
    try:
        while True:
            runtime.count_tokens("hello world " * 20_000)
    except RuntimeClosedError:
        pass
for _ in range(3):
    threading.Thread(target=count, daemon=True).start()
begun.wait()
"""

GENERATING = """
runtime = LocalRuntime.open("nano")
def generate(events):
    try:
        for _ in events:
            pass
    except RuntimeClosedError:
        pass
for _ in range(3):
    events = runtime.iter_stream(MESSAGES, ignore_eos=True, max_tokens=1900)
    next(events)
    threading.Thread(target=generate, args=(events,), daemon=True).start()
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("program", "argument"),
    [
        *((OPENING, str(steps)) for steps in (0, 0, 1, 1, 2, "end")),
        *((LOADING_A_SPECULATOR, "") for _ in range(3)),
        *((TOKENIZING, "") for _ in range(3)),
        *((GENERATING, "") for _ in range(2)),
    ],
)
def test_a_process_ends_in_order_while_daemon_threads_work(program: str, argument: str) -> None:
    done = ended(program, argument)
    assert (done.returncode, done.stderr) == (0, "")


INTERRUPTED = """
runtime = LocalRuntime.open("nano")
def interrupt():
    for _ in range(5):
        os.kill(os.getpid(), signal.SIGINT)
        pause.wait(0.02)
pause = threading.Event()
events = runtime.iter_stream(MESSAGES, ignore_eos=True, max_tokens=1900)
next(events)
threading.Thread(target=interrupt, daemon=True).start()
for _ in events:
    pass
pause.wait()  # the answer may be over before the first interrupt
"""


@pytest.mark.check
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
@pytest.mark.parametrize("attempt", range(3))
def test_ctrl_c_again_and_again_ends_a_process_in_order(attempt: int) -> None:
    done = ended(INTERRUPTED)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert "terminate called" not in done.stderr
    assert "Fatal Python error" not in done.stderr
