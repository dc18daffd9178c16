"""Processes that end at random moments while daemon threads open and use models."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final

from .outcomes import Outcomes

_LONGEST_S: Final = 1.5
"""Seconds after which a process ends, since its threads have begun."""
_TIMEOUT_S: Final = 120
_START: Final = """
import logging, sys, threading, time
from agentrt.errors import RuntimeClosedError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.nano import DRAFT_DIRECTORY
from agentrt.speculators import LocalSpeculator

MESSAGES = [{"role": "user", "content": "Hello!"}]
logging.disable(logging.WARNING)  # that the profile was measured on a busy machine

def on_threads(act, count=1):
    def until_closed():
        try:
            act()
        except RuntimeClosedError:
            pass
    for _ in range(count):
        threading.Thread(target=until_closed, daemon=True).start()
"""
_END: Final = "\ntime.sleep(float(sys.argv[1]))\n"
_PROGRAMS: Final[Mapping[str, str]] = {
    "opening a model": "on_threads(lambda: LocalRuntime.open('nano'))",
    "loading a speculator": "on_threads(lambda: LocalSpeculator(DRAFT_DIRECTORY, threads=1))",
    "tokenizing": """
runtime = LocalRuntime.open("nano")
def count():
    while True:
        runtime.count_tokens("hello world " * 20_000)
on_threads(count, 3)
""",
    "generating": """
runtime = LocalRuntime.open("nano")
def generate():
    while True:
        runtime.generate(MESSAGES, ignore_eos=True, max_tokens=1900)
on_threads(generate, 3)
""",
}


def attack_by_exits(tries: int, outcomes: Outcomes, progress: Callable[[str], None]) -> int:
    """Run ``tries`` processes; return how many ended with code 0 and wrote no error."""
    chance = random.Random(tries)
    clean = 0
    for number in range(tries):
        name = list(_PROGRAMS)[number % len(_PROGRAMS)]
        if number % 20 == 0:
            progress(f"exits {number} of {tries}")
        after_s = f"{chance.uniform(0, _LONGEST_S):.3f}"
        command = [sys.executable, "-X", "faulthandler", "-c", _START + _PROGRAMS[name] + _END, after_s]
        outcomes.tries += 1
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            outcomes.note(f"exit while {name}", f"after {after_s} s: it hangs")
            continue
        if done.returncode == 0 and not done.stderr:
            clean += 1
        else:
            outcomes.note(
                f"exit while {name}", f"after {after_s} s: code {done.returncode}, {done.stderr[:300]}"
            )
    return clean
