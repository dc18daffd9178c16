"""Processes that are killed while they stream, convert, measure and store, and are started again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from tests.attack.campaign import Campaign
from tests.attack.server_process import ServerProcess
from tests.attack.wire import HELLO, connect, post, send

_LONGEST_STREAM_S = 0.5
_OPENING_S = (0.5, 4.0)
"""Between which a process is killed after its start."""
_TURN = {"messages": HELLO, "max_tokens": 5}
_chance = random.Random(0)
SHAPE = ModelShape("qwen2", 4, 256, 1024, 4, 2, 2048, 1024)
"""Of the GGUF file that is converted: large enough to be killed meanwhile."""
_PROGRAM = """
import logging, sys
logging.disable(logging.WARNING)  # that the profile was measured on a busy machine
from agentrt.errors import AgentRTError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.model.directory import open_model_directory

try:
    {}
    print("done")
except AgentRTError as error:
    print(error)
    sys.exit(3)
"""
CONVERT = _PROGRAM.format("open_model_directory(sys.argv[1])")
"""Converts a GGUF file, unless the cache has it."""
ANSWER = _PROGRAM.format("""
    with LocalRuntime.open(sys.argv[1]) as runtime:
        runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=8, ignore_eos=True)
""")
"""Opens a model, measures its profile unless the cache has it, and answers."""
TYPED_ERROR = 3
"""The exit code where a documented error is raised, which is printed."""


def start(program: str, model: object, cache: Path, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a program on a model. ``prefix`` is a command that runs the one behind it."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", program, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )


def test_a_killed_server_leaves_each_turn_whole_or_not_at_all(campaign: Campaign, tmp_path: Path) -> None:
    tries, context, messages = campaign.size(13, 1), "", 0
    for number in range(tries + 1):
        with ServerProcess("serve", "--context-folder", str(tmp_path)) as server:
            if number:
                _count(campaign, "kill -9 while a turn is streamed", _problem_of(server, context, messages))
            if number == tries:
                return
            print(f"kill -9 while streaming, {number + 1} of {tries}")
            context = server.post("/v1/contexts", {}).json()["id"]
            path = f"/v1/contexts/{context}/chat/completions"
            server.post(path, _TURN)
            messages = len(_messages(server, context))
            more = {"stream": True, "max_tokens": _chance.choice((5, 1000)), "ignore_eos": True}
            with connect(server.port) as connection:
                send(connection, post("", path, {**_TURN, **more}).to_bytes(server.tokens["owner"]))
                time.sleep(_chance.uniform(0, _LONGEST_STREAM_S))
                server.kill()


def test_a_killed_conversion_is_done_anew(campaign: Campaign, tmp_path: Path) -> None:
    file = tmp_path / "Random.gguf"
    write_random_gguf(file, SHAPE)
    for number in range(campaign.size(12, 1)):
        _kill(CONVERT, file, tmp_path / str(number), campaign)


def test_a_killed_measurement_of_a_profile_is_done_anew(campaign: Campaign, tmp_path: Path) -> None:
    for number in range(campaign.size(12, 1)):
        _kill(ANSWER, "nano", tmp_path / str(number), campaign)


def _count(campaign: Campaign, name: str, problem: str) -> None:
    campaign.counts.update(tries=1, kills=1, kills_survived=not problem)
    if problem:
        campaign.fail(name, problem)


def _kill(program: str, model: object, cache: Path, campaign: Campaign) -> None:
    """Kill a program that runs on an empty cache; the next one on the same cache ends in order."""
    process = start(program, model, cache)
    time.sleep(_chance.uniform(*_OPENING_S))
    process.kill()
    process.communicate()
    printed, errors = start(program, model, cache).communicate()
    left = [str(path) for path in cache.rglob(".converting-*")]
    in_order = printed == "done\n" and not errors and not left
    _count(campaign, f"kill -9 on {model}", "" if in_order else f"{printed} {errors[-300:]} {left}")


def _problem_of(server: ServerProcess, context: str, messages: int) -> str:
    """Return what is wrong with a context after a restart; an empty string if nothing is."""
    found = len(_messages(server, context))
    if found not in (messages, messages + 2):
        return f"the context has {found} messages instead of {messages} or {messages + 2}"
    if refused := server.metrics()["agentrt_context_refused_files"]:
        return f"{refused:.0f} files were set aside"
    answer = server.post(f"/v1/contexts/{context}/chat/completions", _TURN)
    return "" if answer.status == 200 else f"it cannot be continued: {answer.status} {answer.body[:200]!r}"


def _messages(server: ServerProcess, context: str) -> list[object]:
    messages: list[object] = server.get(f"/v1/contexts/{context}").json().get("messages", [])
    return messages
