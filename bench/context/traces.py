"""Traces of calls to contexts, drawn as LLMS §4 does: who calls when, and by how much the context grows."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Task:
    """What the calls of a context are about (LLMS, Table 3)."""

    name: str
    least: int
    """Tokens by which one call makes the context longer, at least."""
    most: int

    @property
    def mean(self) -> float:
        """The mean of these tokens."""
        return (self.least + self.most) / 2


TASKS: Final = (
    Task("news classification", 200, 500),
    Task("document summary", 1000, 2000),
    Task("chat history summary", 100, 300),
    Task("text comprehension", 500, 1000),
    Task("translation", 100, 500),
    Task("sentiment classification", 10, 100),
)
"""Table 3; contexts have these tasks in turn."""

PATTERNS: Final = ("random", "markov", "gaussian")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a trace."""

    at_s: float
    """Seconds since the begin of the trace; a replay cuts the time between two calls short."""
    context: int
    task: Task
    tokens: int
    """By how many tokens it makes the context longer, prompt and answer together."""


def task_of(context: int) -> Task:
    """Return the task of a context, which is the same for all of its calls."""
    return TASKS[context % len(TASKS)]


def draw_trace(
    pattern: str,
    contexts: int,
    calls: int,
    *,
    interval_s: float = 300.0,
    scale: float = 1.0,
    seed: int = 0,
) -> list[Call]:
    """Return ``calls`` calls of ``contexts`` contexts. Equal arguments give equal traces.

    Calls are a Poisson process, ``interval_s`` seconds apart in the mean. Which context is called is drawn
    by ``pattern``, one of :data:`PATTERNS`. ``scale`` multiplies the tokens of Table 3.

    Raises:
        ValueError: there is no such pattern.
    """
    rng = random.Random(f"{pattern} {contexts} {seed}")
    choose = _chooser(pattern, contexts, rng)
    trace, now = list[Call](), 0.0
    for _ in range(calls):
        now += rng.expovariate(1 / interval_s)
        context = choose()
        task = task_of(context)
        tokens = max(1, round(scale * rng.uniform(task.least, task.most)))
        trace.append(Call(now, context, task, tokens))
    return trace


def _chooser(pattern: str, contexts: int, rng: random.Random) -> Callable[[], int]:
    if pattern == "random":
        return lambda: rng.randrange(contexts)
    if pattern == "markov":
        return _recently_used_first(contexts, rng)
    if pattern == "gaussian":
        weights = _gaussian_weights([task_of(context).mean for context in range(contexts)])
        return lambda: rng.choices(range(contexts), weights)[0]
    raise ValueError(f"there is no pattern {pattern!r}")


def _recently_used_first(contexts: int, rng: random.Random) -> Callable[[], int]:
    """Choose by the order of last use alone, a Markov process: the n-th most recently used by 1 / n."""
    order = list(range(contexts))
    weights = [1 / (place + 1) for place in range(contexts)]

    def choose() -> int:
        context = order.pop(rng.choices(range(contexts), weights)[0])
        order.insert(0, context)
        return context

    return choose


def _gaussian_weights(means: Sequence[float]) -> list[float]:
    """Weigh contexts by the normal density of their mean growth: a moderate workload is the likeliest."""
    center, spread = statistics.fmean(means), statistics.pstdev(means)
    if not spread:
        return [1.0] * len(means)
    return [math.exp(-(((mean - center) / spread) ** 2) / 2) for mean in means]
