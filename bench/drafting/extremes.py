"""What is measured of drafts beside the sets: where they can only cost, an agent's turns, equal tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ..common.bench_model import RandomWords
from ..common.served_runtime import EXACT
from ..common.workloads import traced
from .answering import DRAFTS, AnsweringRuntime
from .prompt_sets import Prompt, PromptSet
from .sides import OURS, VANILLA, Ours, Side, Vanilla

BATCH: Final = 8
_WORDS: Final = 64
_TEMPERATURE: Final = 2.0
"""So high that the answer is tokens drawn almost evenly, of which no two are likely to follow twice."""
_AGENTS: Final = "apibank"
AGENTS_FILE: Final = "apibank_traces.jsonl"


def _in_turn(number: int) -> tuple[Side, Side]:
    return (Vanilla(), Ours()) if number % 2 else (Ours(), Vanilla())


def no_match_slowdowns(
    runtime: AnsweringRuntime, repetitions: int, tokens: int, progress: Callable[[str], None]
) -> list[float]:
    """Return by how many percent drafting slows the answer of each repetition, whose text never repeats."""
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


def agent_turn_ratio(
    runtime: AnsweringRuntime,
    folder: Path,
    conversations: int,
    max_tokens: int,
    progress: Callable[[str], None],
) -> float:
    """Return the time of recorded agents' turns without drafts over that with drafts, prefill included.

    Each side is an app of its own, with its own prefix cache and history: a turn computes what the turns
    before it have not. The conversation goes on as it was recorded, whatever the answer.
    """
    sides: tuple[Side, Side] = (Vanilla(), Ours())
    seconds, turns = dict.fromkeys((VANILLA, OURS), 0.0), 0
    several = [each for each in traced(folder)[_AGENTS] if len(each.turns) > 1]
    for chosen in several[:: max(1, len(several) // conversations)][:conversations]:
        progress(f"an agent's turns, {chosen.id}")
        for turn in chosen.turns:
            prompt = Prompt(tuple(chosen.messages[: turn.history]), tuple(chosen.tools))
            for side in sides if turns % 2 else sides[::-1]:
                app = f"agent, {side.name}"
                answer = runtime.answer(side, prompt, max_tokens, tool_choice="auto", app=app)
                seconds[side.name] += answer.total_s
            turns += 1
    return seconds[VANILLA] / seconds[OURS]


def share_of_identical_answers(
    model: str,
    sets: Sequence[PromptSet],
    sides: Sequence[Side],
    max_tokens: int,
    memory_bytes: int,
    progress: Callable[[str], None],
) -> float:
    """Return the share of greedy answers to the first prompt of each set with vanilla's tokens, in f32."""
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    equal: list[bool] = []
    config = RuntimeConfig(memory_bytes=memory_bytes, **EXACT, **DRAFTS)
    with LocalRuntime.open(model, config) as opened:
        runtime = AnsweringRuntime(opened)
        for each in sets:
            progress(f"{each.name}, in float32")
            prompt = each.prompts[0]
            expected = runtime.answer(Vanilla(), prompt, max_tokens).token_ids
            for side in sides:
                side.begin_app()
                equal.append(runtime.answer(side, prompt, max_tokens).token_ids == expected)
    return sum(equal) / max(1, len(equal))
