"""An agent's turns over HTTP, with a digest in the background and without, on each server in turn."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from ..common.bench_model import BenchModel, TokenPrompts
from ..common.estimates import Estimate, median
from ..common.report import Cell, Table
from ..engines.endpoint import Endpoint
from ..engines.local import OURS
from ..engines.side import Answer, Request
from .engines import GENAI, Arrival, Engine

CALL_TOKENS: Final = 32
"""Of the answers before the last one: as long as a call."""
ANSWER_TOKENS: Final = 64
"""Of the last answer."""
_DIGESTED: Final = 3
"""Texts of the digest that are with the server at once."""
_DIGESTED_TOKENS: Final = 256
_DIGEST_TOKENS: Final = 48
"""Of what is said about each text."""


@cache
def _assistant() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("assistant.json").read_text("utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


def conversation(number: int) -> Iterator[Request]:
    """Yield the turns of conversation ``number``, of which no two begin alike.

    What the model answers is not in the messages of the next turn: a call that was written beforehand is, and
    its result, so that all models and all servers have the same messages.
    """
    assistant = _assistant()
    user, tools = assistant["users"][number % len(assistant["users"])], assistant["tools"]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": assistant["system"].format(number=number, user=user)},
        {"role": "user", "content": assistant["question"]},
    ]
    for place, call in enumerate(assistant["calls"]):
        yield Request(tuple(messages), CALL_TOKENS, tools)
        made = {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": made["id"], "content": json.dumps(call["result"])},
        ]
    yield Request(tuple(messages), ANSWER_TOKENS, tools)


def has_agent_turns(model: BenchModel) -> bool:
    """Whether the chat template of ``model`` takes tools, and a conversation fits in its context."""
    tokens = TokenPrompts(model, 0)
    if "tools" not in tokens.tokenizer.chat_template:
        return False
    *_, last = conversation(0)
    prompt = tokens.tokenizer.apply_chat_template(last.messages, add_generation_prompt=True, tools=last.tools)
    return tokens.count(prompt) + last.max_tokens <= model.context_length


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One conversation on one server, beside the digest or alone."""

    turns: tuple[Answer, ...]

    @property
    def total_s(self) -> float:
        """Time of all turns. The tools take none."""
        return sum(turn.total_s for turn in self.turns)


Runs = Mapping[str, Mapping[str, Sequence[AgentRun]]]
"""By background ("digest", or "none"), then by server, one for each repetition."""


def measure_agent_turns(
    engines: Mapping[str, Engine], repetitions: int, progress: Callable[[str], None]
) -> tuple[dict[str, Estimate], Table]:
    """Return the figures and the table of conversations on each of ``engines``.

    Raises:
        BenchPeerError: a server does not answer in full.
    """
    for engine in engines.values():
        engine.server.generate(_digest_request(engine))
    found: dict[str, dict[str, list[AgentRun]]] = {
        background: {name: [] for name in engines} for background in ("digest", "none")
    }
    for repetition in range(repetitions):
        for name in list(engines)[:: 1 if repetition % 2 == 0 else -1]:
            progress(f"{name}: an agent's turns, {repetition + 1}")
            server = engines[name].server
            with _digesting(engines[name]):
                found["digest"][name].append(converse(server, 2 * repetition))
            found["none"][name].append(converse(server, 2 * repetition + 1))
    figures = {
        f"agent_time_ratio_vs_{GENAI}_{where}": time_ratio(found[background], GENAI)
        for background, where in (("digest", "beside_digest"), ("none", "alone"))
    }
    return figures, agent_table(found)


def converse(server: Endpoint, number: int) -> AgentRun:
    """Have one conversation on a server."""
    return AgentRun(tuple(server.generate(turn) for turn in conversation(number)))


def _digest_request(engine: Engine, tokens: int = _DIGEST_TOKENS) -> Request:
    return engine.request(Arrival(0.0, _DIGESTED_TOKENS, tokens, reactive=False))


@contextmanager
def _digesting(engine: Engine) -> Iterator[None]:
    """Digest texts without a pause; the block begins when the first ones have been answered."""
    ended = threading.Event()

    def digest(begun: threading.Event, tokens: int) -> None:
        try:
            while not ended.is_set():
                engine.server.generate(_digest_request(engine, tokens))
                tokens = _DIGEST_TOKENS
                begun.set()
        finally:
            begun.set()

    begun = [threading.Event() for _ in range(_DIGESTED)]
    with ThreadPoolExecutor(_DIGESTED) as threads:
        # The first answers have other lengths, so that they do not end all at once.
        digests = [
            threads.submit(digest, each, _DIGEST_TOKENS * (place + 1) // _DIGESTED)
            for place, each in enumerate(begun)
        ]
        try:
            for each in begun:
                each.wait()
            yield
        finally:
            ended.set()
        for done in digests:
            done.result()


def time_ratio(runs: Mapping[str, Sequence[AgentRun]], peer: str) -> Estimate:
    """Return the median over the repetitions of our time over that of ``peer``."""
    pairs = zip(runs[OURS], runs[peer], strict=True)
    return median([ours.total_s / theirs.total_s for ours, theirs in pairs])


def agent_table(found: Runs) -> Table:
    """Return the times of conversations, with a digest in the background and without."""
    rows: list[tuple[Cell, ...]] = []
    for background, of_background in found.items():
        for name, runs in of_background.items():
            turns = zip(*(run.turns for run in runs), strict=True)
            firsts = (median([turn.first_s for turn in repetitions]) for repetitions in turns)
            ratio = None if name == OURS else time_ratio(of_background, name)
            rows.append((background, name, median([run.total_s for run in runs]), ratio, *firsts))
    first_s = (f"first token s, turn {number}" for number, _ in enumerate(conversation(0), 1))
    return Table(
        title="an agent's conversation over HTTP",
        columns=("background", "engine", "total s", "agentrt's by it", *first_s),
        rows=tuple(rows),
    )
