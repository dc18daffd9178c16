"""The wire bench: what background responses cost a user, whether kills lose them, and second turns."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from agentrt.errors import ConfigurationError

from ..common.bench_model import open_given_models
from ..common.estimates import Estimate, median, quantile, share
from ..common.machine import describe_machine
from ..common.report import BenchReport
from .server import Server


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    rounds: int
    """Of questions with and without background responses."""
    compilations: int
    """With and without them, which needs a machine on which nothing else runs."""
    queued: int
    jobs: int
    kills: int
    cancels: int
    prompt_words: int


AMOUNTS: dict[bool, Amounts] = {
    True: Amounts(rounds=2, compilations=1, queued=8, jobs=10, kills=2, cancels=8, prompt_words=300),
    False: Amounts(rounds=8, compilations=6, queued=50, jobs=200, kills=20, cancels=100, prompt_words=4500),
}
"""In a quick run and in a full one."""
_QUESTIONS: Final = 3
"""Questions of a round; the least of their times counts."""
_JOB_TOKENS: Final = 48
_LONG_TOKENS: Final = 400
_NUMBERS: Final = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "integer"}, "minItems": _LONG_TOKENS}},
    "required": ["numbers"],
    "additionalProperties": False,
}
"""The schema of an answer that no model ends by itself: a small one ends a story after a few words."""
_ANSWER_TOKENS: Final = 24
_RUNS_S: Final = (0.5, 3.0)
"""Seconds between a start and a kill."""
_STORED_S: Final = 3.0
"""Seconds between an answer and a kill in which what was computed is stored; its text is at once."""
_CALM_S: Final = 120.0
"""Seconds in which other programs must be idle."""
_POLL_S: Final = 0.05
_ANY_LOAD: Final = ("--background-max-load", "1")
_COMPILE: Final = """
import pathlib, sys, time
files = sorted(pathlib.Path(sys.argv[1]).glob("*.py"))
begun = time.perf_counter()
for _ in range(int(sys.argv[2])):
    for file in files:
        compile(file.read_bytes(), str(file), "exec")
print(time.perf_counter() - begun)
"""
_COMPILATIONS: Final = {True: 1, False: 20}
"""How often the standard library is compiled, by each of two processes."""
_WORDS: Final = (
    "note",
    "mail",
    "call",
    "plan",
    "tide",
    "boat",
    "rope",
    "sail",
    "wind",
    "lamp",
    "book",
    "door",
)
_TOOL: Final = {
    "name": "read_file",
    "description": "Read a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
METHOD: Final = """\
`agentrt serve` on the model, with a folder of contexts. reactive_ttft_ratio_with_50_jobs: time to the \
first token of a streamed question of 200 tokens while background responses are queued, by that without \
any, least of three questions each, alternately. jobs_lost: of background responses at random times of \
whose computing the process is killed with SIGKILL and started again, those that do not end with an \
answer; streams_cut: those whose stream then has no end, or another text. jobs_other_text_share: those \
whose text is not that of the foreground. cancel_ms_p99: until a response that is computed is cancelled. \
places_kept_share: of the responses that waited, of 400 tokens each, those that began after no more \
others, and were done within the time, than was said. foreground_slowdown_pct: what two processes that \
compile Python take longer, some 15 seconds, while background responses are queued, with the default \
--background-max-load, alternately. \
second_turn_computed_pct: of a conversation of some 8,000 tokens with a tool, the tokens of the second \
turn that were not cached, as usage says, through /v1/messages; the same after SIGKILL and a new process, \
and through /v1/responses."""


def run(
    *, quick: bool, workloads: Path | None, progress: Callable[[str], None], model: str = "nano"
) -> BenchReport:
    """Run the bench on ``model``; there are no ``workloads`` for it.

    Raises:
        ModelNotFoundError, ModelFormatError: the model cannot be opened.
        BenchProcessError: the server died.
        ConfigurationError: other programs keep the machine busy.
    """
    machine, amounts = describe_machine(), AMOUNTS[quick]
    open_given_models([model], progress)
    figures: dict[str, Estimate] = {}
    with TemporaryDirectory() as folder, Server(model, Path(folder), *_ANY_LOAD) as server:
        progress("the second turn of a conversation")
        figures |= second_turns(server, amounts)
        progress(f"questions beside {amounts.queued} background responses")
        figures[f"reactive_ttft_ratio_with_{amounts.queued}_jobs"] = median(
            [_question_ratio(server, amounts.queued, number) for number in range(amounts.rounds)]
        )
        progress(f"{amounts.cancels} cancelled responses")
        figures |= cancels(server, amounts.cancels)
        progress(f"places of {amounts.queued} background responses")
        figures["places_kept_share"] = places(server, amounts.queued)
        progress(f"{amounts.jobs} background responses over {amounts.kills} kills")
        figures |= kills(server, amounts.jobs, amounts.kills)
    with TemporaryDirectory() as folder, Server(model, Path(folder)) as server:
        progress("a compilation beside background responses")
        ratios = [
            _compile_ratio(server, amounts.queued, _COMPILATIONS[quick]) for _ in range(amounts.compilations)
        ]
        if ratios:
            figures["foreground_slowdown_pct"] = median([100 * (ratio - 1) for ratio in ratios])
    return BenchReport(bench="wire", machine=machine, figures=figures, method=METHOD)


def queue(server: Server, number: int, **options: Any) -> str:
    """Send a background response, the same for the same ``number``, and return its id."""
    return str(server.post("/responses", _job(number) | {"background": True, **options})["id"])


def _queue_long(server: Server, number: int) -> str:
    """Send a background response whose answer has exactly ``_LONG_TOKENS``, and return its id."""
    format = {"type": "json_schema", "name": "numbers", "schema": _NUMBERS}
    return queue(server, number, max_output_tokens=_LONG_TOKENS, text={"format": format})


def _job(number: int) -> dict[str, Any]:
    return {"input": f"Write a story about {_words(12, number)}.", "max_output_tokens": _JOB_TOKENS}


def _words(count: int, seed: int) -> str:
    return " ".join(random.Random(seed).choices(_WORDS, k=count))


def _question_ratio(server: Server, queued: int, number: int) -> float:
    ids = [_queue_long(server, each) for each in range(queued)]
    _until(lambda: any(each["status"] == "in_progress" for each in _listed(server)))
    time.sleep(1)  # several are being computed
    beside = min(_first_token_s(server, f"{number} {each} beside") for each in range(_QUESTIONS))
    for id in reversed(ids):
        server.http.delete(f"/responses/{id}").raise_for_status()
    alone = min(_first_token_s(server, f"{number} {each} alone") for each in range(_QUESTIONS))
    return beside / alone


def _first_token_s(server: Server, name: str) -> float:
    prompt = f"{name}: {_words(180, len(name))}. What is this about?"
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 4, "stream": True}
    begun = time.perf_counter()
    with server.http.stream("POST", "/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if '"content":' in line and '"content":""' not in line:
                return time.perf_counter() - begun
    raise AssertionError("an answer without a token")


def cancels(server: Server, count: int) -> dict[str, Estimate]:
    """Return how long it takes to cancel responses that are computed."""
    taken = []
    for number in range(count):
        id = _queue_long(server, number)
        _until(lambda id=id: server.get(f"/responses/{id}")["status"] == "in_progress")  # type: ignore[misc]
        time.sleep(_POLL_S)
        begun = time.perf_counter()
        server.post(f"/responses/{id}/cancel", {})
        taken.append(1e3 * (time.perf_counter() - begun))
        server.http.delete(f"/responses/{id}").raise_for_status()
    p99 = quantile(taken, 0.99)
    return {"cancel_ms_p50": median(taken)} | ({} if p99 is None else {"cancel_ms_p99": p99})


def places(server: Server, count: int) -> Estimate:
    """Return the share of responses of whose place in the queue the truth was said."""
    for number in range(8):  # whose durations are known
        _end(server, [_queue_long(server, number)])
    ids = [_queue_long(server, number) for number in range(count)]
    said = {each["id"]: each["queue"] for each in _listed(server) if each["status"] == "queued"}
    begun: dict[str, int] = {}
    done: dict[str, float] = {}
    while len(done) < count:
        for each in reversed(_listed(server)):
            if each["id"] in ids and each["status"] != "queued":
                begun.setdefault(each["id"], len(begun))
                if each["status"] != "in_progress":
                    done.setdefault(each["id"], time.time())
        time.sleep(_POLL_S)
    first = len(ids) - len(said)
    kept = 0
    for id, place in said.items():
        expected = place["done_at"]
        in_time = expected["earliest"] <= done[id] <= expected["latest"] + 2 * _POLL_S
        kept += in_time and begun[id] - first <= place["position_at_most"]
    for id in ids:
        server.http.delete(f"/responses/{id}").raise_for_status()
    return share(kept, len(said))


def kills(server: Server, jobs: int, count: int) -> dict[str, Estimate]:
    """Return what ``count`` kills do to ``jobs`` background responses."""
    drawn = random.Random(0)
    ids = {queue(server, number): number for number in range(jobs)}
    for _ in range(count):
        time.sleep(drawn.uniform(*_RUNS_S))
        server.kill()
        server.start()
    found = {id: server.http.get(f"/responses/{id}") for id in _end(server, list(ids))}
    answered = {id: each.json() for id, each in found.items() if each.status_code == 200}
    ended = {id: each for id, each in answered.items() if each["status"] in ("completed", "incomplete")}
    foreground = {id: server.post("/responses", _job(ids[id]) | {"store": False}) for id in ended}
    other = sum(_text(each) != _text(foreground[id]) for id, each in ended.items())
    cut = sum(_streamed(server, id) != _text(each) for id, each in ended.items())
    return {
        "jobs_lost": Estimate(value=jobs - len(ended)),
        "streams_cut": Estimate(value=cut),
        "jobs_other_text_share": share(other, len(ended)),
    }


def _streamed(server: Server, id: str) -> str | None:
    """Return the text that the stream of a response has; None if it has no end."""
    deltas, has_end = [], False
    with server.http.stream("GET", f"/responses/{id}?stream=true") as answer:
        for line in answer.raise_for_status().iter_lines():
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
            has_end |= event.get("type") in ("response.completed", "response.incomplete")
            if event.get("type") == "response.output_text.delta":
                deltas.append(event["delta"])
    return "".join(deltas) if has_end else None


def _text(response: dict[str, Any]) -> str:
    parts = [part for item in response["output"] for part in item.get("content", ())]
    return "".join(part["text"] for part in parts)


def _compile_ratio(server: Server, queued: int, times: int) -> float:
    alone = _compile_s(times)
    ids = [_queue_long(server, number) for number in range(queued)]
    end = time.monotonic() + _CALM_S
    # Else they would still wait for the end of the compilation before.
    while not any(_is_computed(each) for each in _listed(server)):
        if time.monotonic() > end:
            raise ConfigurationError(
                "other programs keep background responses from being computed. Measure on an idle machine."
            )
        time.sleep(_POLL_S)
    beside = _compile_s(times)
    for id in reversed(ids):
        server.http.delete(f"/responses/{id}").raise_for_status()
    return beside / alone


def _is_computed(response: dict[str, Any]) -> bool:
    return response["status"] == "in_progress" and response["queue"]["waits_for"] is None


def _compile_s(times: int) -> float:
    folder = str(Path(subprocess.__file__).parent)
    command = [sys.executable, "-c", _COMPILE, folder, str(times)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return max(float(each.communicate()[0]) for each in running)


def second_turns(server: Server, amounts: Amounts) -> dict[str, Estimate]:
    """Return what is computed of the second turn, also after a kill, and of a continued response."""
    system = _words(amounts.prompt_words, 1)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Which word comes first?"}]
    body = {
        "model": server.get("/models")["data"][0]["id"],
        "system": system,
        "tools": [_TOOL],
        "max_tokens": _ANSWER_TOKENS,
    }
    figures = {}
    for name in ("second_turn_computed_pct", "second_turn_computed_pct_after_restart"):
        if "restart" in name:
            _restart(server)
        headers = {"x-session-id": "bench"}
        for _ in range(2 if "restart" not in name else 1):
            answer = server.http.post("/messages", json=body | {"messages": messages}, headers=headers)
            usage, content = answer.raise_for_status().json()["usage"], answer.json()["content"]
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": id, "content": "nothing"} for id in calls]
            results.append({"type": "text", "text": "And which one comes next?"})
            messages.append({"role": "assistant", "content": content})
            messages.append({"role": "user", "content": results})
        whole = usage["input_tokens"] + usage["cache_read_input_tokens"]
        figures[name] = Estimate(value=100 * usage["input_tokens"] / whole)
    first = server.post(
        "/responses", {"input": f"{system}. Which word comes first?", "max_output_tokens": 16}
    )
    _restart(server)
    following = {"input": "And next?", "previous_response_id": first["id"], "max_output_tokens": 16}
    usage = server.post("/responses", following)["usage"]
    computed = usage["input_tokens"] - usage["input_tokens_details"]["cached_tokens"]
    figures["second_response_computed_pct_after_restart"] = Estimate(
        value=100 * computed / usage["input_tokens"]
    )
    return figures


def _restart(server: Server) -> None:
    time.sleep(_STORED_S)
    server.kill()
    server.start()


def _listed(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.get("/responses?limit=100")["data"]
    return found


def _end(server: Server, ids: list[str]) -> list[str]:
    """Wait until the responses have ended, and return their ids."""
    for id in ids:

        def has_ended(id: str = id) -> bool:
            answer = server.http.get(f"/responses/{id}")
            return answer.status_code != 200 or answer.json()["status"] not in ("queued", "in_progress")

        _until(has_ended)
    return ids


def _until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(_POLL_S)
