"""Processes that are killed while they stream, convert, measure and store, and are started again."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ..common.crash_points import crash_points
from ..common.random_gguf import ModelShape, write_random_gguf
from .metrics import metrics_of
from .opening import DONE, start_answering, start_conversion
from .outcomes import Outcomes
from .server_process import ServerProcess
from .wire import Answer, Request, connect, exchange, post, send

SHAPE: Final = ModelShape("qwen2", 4, 256, 1024, 4, 2, 2048, 1024)
"""Of the GGUF file that is converted: large enough to be killed meanwhile."""
_LONGEST_STREAM_S: Final = 0.5
_OPENING_S: Final = (0.5, 4.0)
"""Between which a process is killed after its start."""
_UNFINISHED: Final = ".converting-*"


@dataclass(frozen=True, slots=True)
class KillsSize:
    """How many processes are killed of each kind."""

    streams: int
    conversions: int
    profiles: int
    store_writes: int


def attack_by_kills(size: KillsSize, outcomes: Outcomes, progress: Callable[[str], None]) -> tuple[int, int]:
    """Kill processes at random moments; return how many, and after how many all was in order."""
    chance = random.Random(size.streams)
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        file = folder / "Random.gguf"
        write_random_gguf(file, SHAPE)
        survived = _kill_streams(size.streams, folder / "contexts", chance, outcomes, progress)
        starts: list[tuple[str, int, Callable[[Path], subprocess.Popen[str]]]] = [
            ("converting", size.conversions, lambda cache: start_conversion(file, cache)),
            ("measuring a profile", size.profiles, lambda cache: start_answering("nano", cache)),
        ]
        for kind, tries, start in starts:
            survived += _kill_openings(start, kind, tries, folder, chance, outcomes, progress)
        progress(f"{size.store_writes} processes that store contexts are killed")
        stored = crash_points(folder / "store", size.store_writes)
        for problem in stored.problems:
            outcomes.fail("kill -9 while contexts are stored", problem)
    tries = size.streams + size.conversions + size.profiles + size.store_writes
    outcomes.tries += tries
    return tries, survived + stored.survived


def _kill_streams(
    tries: int, folder: Path, chance: random.Random, outcomes: Outcomes, progress: Callable[[str], None]
) -> int:
    """Kill servers while a turn is streamed; its context then has the turn whole or not at all."""
    survived, context, messages = 0, "", 0
    for number in range(tries + 1):
        with ServerProcess("serve", "--context-folder", str(folder)) as server:
            if number:
                problem = _problem_of(server, context, messages)
                survived += not problem
                if problem:
                    outcomes.fail("kill -9 while a turn is streamed", problem)
            if number == tries:
                return survived
            progress(f"kill -9 while streaming, {number + 1} of {tries}")
            context = json.loads(_exchange(server, "/v1/contexts", {}).body)["id"]
            path = f"/v1/contexts/{context}/chat/completions"
            turn: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 5}
            _exchange(server, path, turn)
            messages = len(_messages(server, context))
            more = {"stream": True, "max_tokens": chance.choice((5, 1000)), "ignore_eos": True}
            with connect(server.port, 60) as connection:
                send(connection, post("", path, {**turn, **more}).to_bytes(server.tokens["owner"]))
                time.sleep(chance.uniform(0, _LONGEST_STREAM_S))
                server.kill()
    return survived


def _problem_of(server: ServerProcess, context: str, messages: int) -> str:
    """Return what is wrong with a context after a restart; an empty string if nothing is."""
    found = _messages(server, context)
    if len(found) not in (messages, messages + 2):
        return f"the context has {len(found)} messages instead of {messages} or {messages + 2}"
    if refused := metrics_of(server)["agentrt_context_refused_files"]:
        return f"{refused:.0f} files were set aside"
    turn = {"messages": [{"role": "user", "content": "Thanks."}], "max_tokens": 5}
    answer = _exchange(server, f"/v1/contexts/{context}/chat/completions", turn)
    return "" if answer.status == 200 else f"it cannot be continued: {answer.status} {answer.body[:200]!r}"


def _exchange(server: ServerProcess, path: str, body: object) -> Answer:
    return exchange(server.port, post("", path, body), server.tokens["owner"])


def _messages(server: ServerProcess, context: str) -> list[Any]:
    answer = exchange(server.port, Request("", "GET", f"/v1/contexts/{context}"), server.tokens["owner"])
    found: list[Any] = json.loads(answer.body).get("messages", [])
    return found


def _kill_openings(
    start: Callable[[Path], subprocess.Popen[str]],
    name: str,
    tries: int,
    folder: Path,
    chance: random.Random,
    outcomes: Outcomes,
    progress: Callable[[str], None],
) -> int:
    """Kill processes that ``start`` starts on empty caches; the next one on the same caches ends in order."""
    survived = 0
    for number in range(tries):
        progress(f"kill -9 while {name}, {number + 1} of {tries}")
        with TemporaryDirectory(dir=folder) as temporary:
            cache = Path(temporary)
            process = start(cache)
            time.sleep(chance.uniform(*_OPENING_S))
            process.kill()
            process.communicate()
            printed, errors = start(cache).communicate()
            left = [str(path) for path in cache.rglob(_UNFINISHED)]
            if printed == DONE and not errors and not left:
                survived += 1
            else:
                outcomes.fail(f"kill -9 while {name}", f"{printed} {errors[-300:]} {left}")
    return survived
