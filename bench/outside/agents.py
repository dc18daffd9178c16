"""Recorded agents on each server, alone and beside a background agent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from ..common.bench_model import BenchModel
from ..common.estimates import Estimate, bootstrap, mean, median, share
from ..common.report import Cell, Table
from ..engines.endpoint import Endpoint
from ..engines.local import OURS
from ..engines.side import Request
from .agentperf import AgentPerf, Recorded, Turn
from .servers import Server

_DIGESTED_WORDS: Final = 1000
_DIGEST_TOKENS: Final = 96
"""What the background agent reads, and what it writes about each text."""


@dataclass(slots=True)
class Replayed:
    """All turns on one server, and what they took."""

    turns: list[Turn] = field(default_factory=list)
    cpu_s: float = 0.0
    """Of the server's process, with what agentperf-local asks before the first turn; 0 if unknown."""
    digested_tokens: int = 0
    digesting_s: float = 0.0


Found = Mapping[bool, Mapping[str, Replayed]]
"""By whether a background agent ran beside them, then by server."""


def measure_agents(
    agentperf: AgentPerf,
    servers: Mapping[str, Server],
    model: BenchModel,
    work: Mapping[bool, Sequence[Recorded]],
    progress: Callable[[str], None],
) -> tuple[dict[str, Estimate], Table]:
    """Return figures and table of agents: alone (False), and beside a background agent (True).

    The servers take turns, in another order for each agent.

    Raises:
        BenchProcessError, BenchPeerError: a server died, or does not do the work.
    """
    found = {beside: {name: Replayed() for name in servers} for beside in work}
    prompts, order = model.prompts(0), list(servers.values())
    for beside, agents in work.items():
        for agent in agents:
            for server in order:
                progress(f"{server.name}: {agent.task}{' beside a background agent' if beside else ''}")
                replayed = found[beside][server.name]
                cpu_s = server.process.cpu_s()
                with _background(server, lambda: prompts.take(_DIGESTED_WORDS), replayed, beside):
                    replayed.turns += agentperf.replay(agent, server.url, server.model)
                cpu_s_after = server.process.cpu_s()
                if cpu_s is not None and cpu_s_after is not None:
                    replayed.cpu_s += cpu_s_after - cpu_s
            order = [*order[1:], order[0]]
    return figures_of(found), agents_table(found)


@contextmanager
def _background(server: Server, text: Callable[[], str], replayed: Replayed, beside: bool) -> Iterator[None]:
    """Have one text after the other digested while the block runs, if ``beside``."""
    if not beside:
        yield
        return
    ended, endpoint, begun = threading.Event(), Endpoint(server.name, server.url), time.perf_counter()

    def digest() -> None:
        while not ended.is_set():
            answer = endpoint.generate(Request(text(), _DIGEST_TOKENS, reactive=False))
            replayed.digested_tokens += answer.prompt_tokens + answer.new_tokens

    with ThreadPoolExecutor(1) as thread:
        digesting = thread.submit(digest)
        try:
            yield
        finally:
            ended.set()
        digesting.result()
    replayed.digesting_s += time.perf_counter() - begun


def figures_of(found: Found) -> dict[str, Estimate]:
    """Return the figures; a ratio is of the turns that failed on neither side."""
    figures: dict[str, Estimate] = {}
    for beside, of_servers in found.items():
        for name, peer in of_servers.items():
            if name != OURS and (ratio := _wall_ratio(peer.turns, of_servers[OURS].turns)) is not None:
                behind = "_beside_background" if beside else ""
                figures[f"agentperf_wall_ratio_vs_{name}{behind}"] = ratio
    ours = [turn for of_servers in found.values() for turn in of_servers[OURS].turns]
    return {**figures, "agentperf_turns_failed": _failed(ours)}


def _wall_ratio(theirs: Sequence[Turn], ours: Sequence[Turn]) -> Estimate | None:
    """Return their time for all turns by ours."""
    pairs = [
        (peer.seconds, own.seconds)
        for peer, own in zip(theirs, ours, strict=True)
        if not peer.failed and not own.failed
    ]
    if not pairs:
        return None
    return bootstrap(pairs, lambda drawn: sum(peer for peer, _ in drawn) / sum(own for _, own in drawn))


def _failed(turns: Sequence[Turn]) -> Estimate:
    """Return how many turns failed, with the interval of as many others."""
    count, part = len(turns), share(sum(turn.failed for turn in turns), len(turns))
    low, high = (None if end is None else end * count for end in (part.low, part.high))
    return Estimate(value=part.value * count, low=low, high=high, samples=count)


def agents_table(found: Found) -> Table:
    """Return what each server took; seconds are those of the turns that did not fail."""
    rows: list[tuple[Cell, ...]] = []
    for beside, of_servers in found.items():
        for name, replayed in of_servers.items():
            done = [turn for turn in replayed.turns if not turn.failed]
            first_s = [turn.first_s for turn in done if turn.first_s is not None]
            speed = replayed.digested_tokens / replayed.digesting_s if replayed.digesting_s else None
            rows.append((
                *("digest" if beside else "none", name, len(replayed.turns), len(replayed.turns) - len(done)),
                mean([turn.seconds for turn in done]) if done else None,
                median(first_s) if first_s else None,
                max((turn.prompt_tokens or 0 for turn in done), default=None),
                *(replayed.cpu_s or None, speed),
            ))  # fmt: skip
    return Table(
        title="agentperf-local's recorded agents",
        columns=(
            *("background", "engine", "turns", "failed", "s a turn", "s to the first token"),
            *("longest prompt", "CPU s", "background tokens/s"),
        ),
        rows=tuple(rows),
    )
