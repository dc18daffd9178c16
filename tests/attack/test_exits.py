"""Processes that end at random moments while daemon threads open and use models."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Mapping

from tests.attack.campaign import Campaign

_LONGEST_S = 1.5
"""Seconds after which a process ends, since its threads have begun."""
_START = """
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

def over_and_over(act):
    def acting():
        while True:
            act()
    on_threads(acting, 3)
"""
_END = "\ntime.sleep(float(sys.argv[1]))\n"
_PROGRAMS: Mapping[str, str] = {
    "opening a model": "on_threads(lambda: LocalRuntime.open('nano'))",
    "loading a speculator": "on_threads(lambda: LocalSpeculator(DRAFT_DIRECTORY, threads=1))",
    "tokenizing": """
runtime = LocalRuntime.open("nano")
over_and_over(lambda: runtime.count_tokens("hello world " * 20_000))
""",
    "generating": """
runtime = LocalRuntime.open("nano")
over_and_over(lambda: runtime.generate(MESSAGES, ignore_eos=True, max_tokens=1900))
""",
}


def test_processes_that_end_while_they_use_models(campaign: Campaign) -> None:
    tries = campaign.size(60, 4)
    chance = random.Random(tries)
    for name, program in itertools.islice(itertools.cycle(_PROGRAMS.items()), tries):
        after_s = f"{chance.uniform(0, _LONGEST_S):.3f}"
        print(f"exit while {name} after {after_s} s")
        command = [sys.executable, "-X", "faulthandler", "-c", _START + program + _END, after_s]
        campaign.counts.update(tries=1, exits_tried=1)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            ended = f"code {done.returncode}, {done.stderr[:300]}" if done.returncode or done.stderr else ""
        except subprocess.TimeoutExpired:
            ended = "it hangs"
        campaign.counts.update(clean_exits=not ended)
        if ended:
            campaign.fail(f"exit while {name}", f"after {after_s} s: {ended}")
