"""What is measured of drafts beside the sets: where they can only cost, an agent's turns, equal tokens, an
NPU's graphs that change during prefill (sd.npu §3.2, in virtual time), and what the indexes cost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ..common.bench_model import RandomWords
from ..common.estimates import Estimate, exact, quantile, share
from ..common.served_runtime import EXACT
from ..common.workloads import traced
from .answering import DRAFTS, AnsweringRuntime
from .prompt_sets import Prompt
from .sides import OURS, VANILLA, Ours, Vanilla

BATCH: Final = 8
_WORDS: Final = 64
_TEMPERATURE: Final = 2.0
"""So high that the answer is tokens drawn almost evenly, of which no two are likely to follow twice."""
_AGENTS: Final = "apibank"
AGENTS_FILE: Final = "apibank_traces.jsonl"


def _in_turn(number: int) -> tuple[Vanilla, Vanilla]:
    return (Vanilla(), Ours()) if number % 2 else (Ours(), Vanilla())


def undrafted_slowdowns(
    runtime: AnsweringRuntime, repetitions: int, tokens: int, progress: Callable[[str], None]
) -> list[float]:
    """Return by how many percent drafters slow the answer of each repetition, in which nothing is drafted."""
    prompts, found = RandomWords(0), []
    for seed in range(repetitions):
        progress(f"text in which nothing matches, repetition {seed + 1} of {repetitions}")
        prompt = Prompt(({"role": "user", "content": prompts.take(_WORDS)},))
        runtime.prefill(prompt)
        seconds = {}
        for side in _in_turn(seed):
            answer = runtime.answer(
                side, prompt, tokens, temperature=_TEMPERATURE, seed=seed, ignore_eos=True
            )
            seconds[side.name] = answer.decode_s / answer.decoded
        found.append(100.0 * (seconds[OURS] / seconds[VANILLA] - 1.0))
    return found


def batch_ratios(
    runtime: AnsweringRuntime,
    prompts: Sequence[Prompt],
    repetitions: int,
    tokens: int,
    progress: Callable[[str], None],
) -> list[float]:
    """Return how many times as many tokens a second a batch of prompts makes with drafts, by repetition.

    The prompts are in the prefix cache, so that almost all of the time is decoding.
    """
    found = []
    for prompt in prompts:
        runtime.prefill(prompt)
    for repetition in range(repetitions):
        progress(f"batches of {len(prompts)}, repetition {repetition + 1} of {repetitions}")
        speeds = {}
        for side in _in_turn(repetition):
            seconds, made = runtime.answer_all(side, prompts, tokens)
            speeds[side.name] = made / seconds
        found.append(speeds[OURS] / speeds[VANILLA])
    return found


def agent_turns(
    runtime: AnsweringRuntime,
    folder: Path,
    conversations: int,
    max_tokens: int,
    progress: Callable[[str], None],
) -> list[tuple[float, float]]:
    """Return the seconds of all turns of each recorded agent without drafts and with them, with prefill.

    Each side is an app of its own, with its own prefix cache and history: a turn computes what the turns
    before it have not. The conversation goes on as it was recorded, whatever the answer.
    """
    sides: tuple[Vanilla, Vanilla] = (Vanilla(), Ours())
    found, turns = list[tuple[float, float]](), 0
    several = [each for each in traced(folder)[_AGENTS] if len(each.turns) > 1]
    for chosen in several[:: max(1, len(several) // conversations)][:conversations]:
        progress(f"an agent's turns, {chosen.id}")
        seconds = dict.fromkeys((VANILLA, OURS), 0.0)
        for turn in chosen.turns:
            prompt = Prompt(tuple(chosen.messages[: turn.history]), tuple(chosen.tools))
            for side in sides if turns % 2 else sides[::-1]:
                app = f"agent, {side.name}"
                answer = runtime.answer(side, prompt, max_tokens, tool_choice="auto", app=app)
                seconds[side.name] += answer.total_s
            turns += 1
        found.append((seconds[VANILLA], seconds[OURS]))
    return found


def share_of_identical_answers(
    model: str,
    prompts: Sequence[Prompt],
    side: Vanilla,
    max_tokens: int,
    memory_bytes: int,
    progress: Callable[[str], None],
) -> Estimate:
    """Return the share of greedy answers of ``side`` with vanilla's tokens, in f32.

    All prompts are of one app, whose history grows.
    """
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    equal = 0
    config = RuntimeConfig(memory_bytes=memory_bytes, **EXACT, **DRAFTS)
    with LocalRuntime.open(model, config) as opened:
        runtime = AnsweringRuntime(opened)
        for number, prompt in enumerate(prompts, 1):
            progress(f"in float32, prompt {number} of {len(prompts)}")
            expected = runtime.answer(Vanilla(), prompt, max_tokens).token_ids
            equal += runtime.answer(side, prompt, max_tokens).token_ids == expected
    return share(equal, len(prompts))


_MACHINE: Final = "simulated:core-ultra-5-125h"
_SWITCHED_TOKENS: Final = 1024
"""Tokens of the prompt of the figure: eight chunks of this NPU."""
_SWITCHED_ANSWER: Final = 64


def graph_switch_hidden_fraction(prompt_tokens: int = _SWITCHED_TOKENS) -> float:
    """Return the share of the time to load all graphs for decoding during which a prompt is prefilled."""
    from agentrt.bench.simulation.platform import simulate
    from agentrt.bench.simulation.simulation import SimulatedRequest, Simulation
    from agentrt.priority import Priority
    from agentrt.runtime.heg.graph_switch import hidden_fraction
    from agentrt.runtime.heg.kernel import StaticGraph
    from agentrt.runtime.scheduler.policy import AGENT_XPU

    platform, graph = simulate(_MACHINE, max_chunk_tokens=256, quantum_s=0.025, npu_decoding=True)
    simulated = Simulation(platform, graph, AGENT_XPU, blocks=4096, max_batch_size=8)
    simulated.submit(SimulatedRequest(prompt_tokens, _SWITCHED_ANSWER, Priority.REACTIVE))
    simulated.run()
    (output,) = simulated.outputs
    loads = [load for load in simulated.graph_loads if load.load.graph is StaticGraph.DECODE]
    return hidden_fraction(((load.started, load.ended) for load in loads), output.first_token)


_INDEXED_TOKENS: Final = 32_768
_PASSES: Final = 2000
_ANSWER_TOKENS: Final = 200
_VOCABULARY: Final = 32_000
_PASSAGES: Final = 64
_PASSAGE_TOKENS: Final = 100


def index_costs(prompt_tokens: int = _INDEXED_TOKENS, passes: int = _PASSES) -> dict[str, Estimate]:
    """Draft ``passes`` times behind a text that repeats passages, as prompts with documents and tools do.

    Returns the figures: the 99th percentile of the CPU times, in milliseconds, of appending a token and
    drafting, and the MB of the index of the request and of its app's history.
    """
    from agentrt.runtime.drafting.app_history import AppHistory
    from agentrt.runtime.drafting.history_store import MAX_TOKENS
    from agentrt.runtime.drafting.retrieval import RetrievalDrafter

    text = _Text()
    history = AppHistory()
    history.restore(text.next_tokens(MAX_TOKENS))
    while len(history.sources) < 3:  # the newest answers, those before, and those of earlier processes
        history.add(text.next_tokens(_ANSWER_TOKENS))
    drafter = RetrievalDrafter(text.next_tokens(prompt_tokens), prompt_tokens + passes, history)
    drafter.draft()  # the first one builds the index of the prompt, which belongs to prefill
    milliseconds = []
    for token in text.next_tokens(passes):
        began = time.thread_time()
        drafter.append(token)
        drafter.draft()
        milliseconds.append((time.thread_time() - began) * 1000)
    memory = sum(each.index.memory_bytes for each in (drafter._own, *history.sources)) / 1e6
    found = {"memory_overhead_mb": exact(memory)}
    if (p99 := quantile(milliseconds, 0.99)) is not None:
        found["draft_ms_p99_at_32k"] = p99
    return found


class _Text:
    """A text of passages that come again, and of as many tokens that are as frequent as words are."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._passages = [self._words(_PASSAGE_TOKENS) for _ in range(_PASSAGES)]

    def next_tokens(self, count: int) -> list[int]:
        """Return the next ``count`` tokens."""
        tokens: list[int] = []
        while len(tokens) < count:
            length = self._random.randint(5, 40)
            begin = self._random.randrange(_PASSAGE_TOKENS - length)
            tokens += self._random.choice(self._passages)[begin : begin + length] + self._words(length)
        return tokens[:count]

    def _words(self, count: int) -> list[int]:
        """Return random tokens of Zipf's distribution."""
        return [int(_VOCABULARY ** self._random.random()) for _ in range(count)]
