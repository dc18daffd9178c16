"""Evicted requests of real models give the tokens that they give alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentrt import Priority
from agentrt.runtime import Finished, LocalRuntime
from tests.real_models.conftest import CONFIG

OPTIONS: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}


def prompt(number: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{number}. Continue: {'one two three four ' * (12 * number)}"}]


def test_evicted_requests_give_the_same_tokens(file: Path, runtime: LocalRuntime) -> None:
    background, reactive = (prompt(6), 96), (prompt(5), 24)
    alone = [tokens(runtime, *each, Priority.REACTIVE) for each in (background, reactive)]
    statistics = runtime.statistics()
    block_bytes = statistics.arena_bytes // statistics.blocks
    # They take 13 and 10 blocks of 32 tokens.
    tight = CONFIG.model_copy(update={"memory_bytes": 20 * block_bytes})
    with LocalRuntime.open(file, tight) as crowded:
        messages, most = background
        events = crowded.iter_stream(messages, priority=Priority.PROACTIVE, max_tokens=most, **OPTIONS)
        next(events)  # it runs, and has all but a few of its blocks
        between = tokens(crowded, *reactive, Priority.REACTIVE)
        *_, last = events
        assert isinstance(last, Finished)
        assert [last.generation.token_ids, between] == alone
        assert crowded.statistics().engine.evictions > 0


def tokens(runtime: LocalRuntime, messages: Any, most: int, priority: Priority) -> tuple[int, ...]:
    return runtime.generate(messages, priority=priority, max_tokens=most, **OPTIONS).token_ids
