"""Preempted and evicted requests of real models give the tokens that they give alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentrt import Priority
from agentrt.runtime import LocalRuntime
from tests.real_models.conftest import CONFIG

TOKENS = 24
PROMPTS = [
    [{"role": "user", "content": f"{number}. Continue: {'one two three four ' * (12 * number)}"}]
    for number in range(1, 7)
]


def test_preempted_requests_give_the_same_tokens(file: Path, runtime: LocalRuntime) -> None:
    alone = [answer(runtime, number, Priority.REACTIVE) for number in range(len(PROMPTS))]
    statistics = runtime.statistics()
    block_bytes = statistics.arena_bytes // statistics.blocks
    # The longest prompt and its answer take 12 blocks of 32 tokens, all together 50.
    tight = CONFIG.model_copy(update={"memory_bytes": 20 * block_bytes})
    with LocalRuntime.open(file, tight) as crowded, ThreadPoolExecutor(len(PROMPTS)) as pool:

        def run(number: int) -> tuple[int, ...]:
            return answer(crowded, number, Priority.REACTIVE if number % 3 == 0 else Priority.PROACTIVE)

        assert list(pool.map(run, range(len(PROMPTS)))) == alone
        engine = crowded.statistics().engine
    assert engine.evictions + engine.preemptions > 0


def answer(runtime: LocalRuntime, number: int, priority: Priority) -> tuple[int, ...]:
    options = {"max_tokens": TOKENS, "temperature": 0.0, "ignore_eos": True}
    return runtime.generate(PROMPTS[number], priority=priority, **options).token_ids  # type: ignore[misc]
