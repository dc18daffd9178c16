"""Traces of calls to contexts, drawn as LLMS §4 does, and texts of their tasks from public data sets."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from ..common.bench_model import Prompts
from ..common.workloads import read_records


@dataclass(frozen=True, slots=True)
class Task:
    """What the calls of a context are about (LLMS, Table 3)."""

    name: str
    least: int
    """Tokens by which one call makes the context longer, at least."""
    most: int

    @property
    def mean(self) -> float:
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


SPEC_BENCH: Final = "spec_bench.jsonl"
MTRAG: Final = "mtrag_un.jsonl"

_REQUESTS: Final = {
    "news classification": "Which section of a newspaper is this from?",
    "document summary": "Summarize this document.",
    "chat history summary": "Summarize this chat.",
    "text comprehension": "What is this text about?",
    "translation": "Translate this into English.",
    "sentiment classification": "Is this positive or negative?",
}


class TaskTexts:
    """An endless supply of prompts for each task; no two in a row are alike."""

    def __init__(self, words: dict[str, list[str]], count_tokens: Callable[[str], int]) -> None:
        """``words`` has the text of each task by its name."""
        self._words = words
        self._places = dict.fromkeys(words, 0)
        self._tokens_a_word = {
            name: max(1.0, count_tokens(" ".join(found[:2000])) / len(found[:2000]))
            for name, found in words.items()
        }
        self._request_tokens = {name: count_tokens(request) for name, request in _REQUESTS.items()}

    def take(self, task: Task, tokens: int) -> str:
        """Return the next prompt of ``task``, of about ``tokens`` tokens."""
        words, place = self._words[task.name], self._places[task.name]
        count = round((tokens - self._request_tokens[task.name]) / self._tokens_a_word[task.name])
        taken = [words[at % len(words)] for at in range(place, place + max(1, count))]
        self._places[task.name] = (place + len(taken)) % len(words)
        return " ".join(taken) + "\n" + _REQUESTS[task.name]


def load_texts(folder: Path, count_tokens: Callable[[str], int]) -> TaskTexts:
    """Load the texts of ``folder``: news articles, passages, conversations, German sentences, questions.

    Raises:
        WorkloadNotFoundError: a file is not there.
        WorkloadFormatError: a line cannot be read.
    """
    records = list(read_records(folder / SPEC_BENCH, _SpecBench))
    chats = list(read_records(folder / MTRAG, _Conversation))

    def contexts(category: str) -> Iterator[str]:
        return (record.context for record in records if record.category == category)

    def questions(category: str) -> Iterator[str]:
        return (record.question for record in records if record.category.startswith(category))

    texts: dict[str, Iterable[str]] = {
        "news classification": contexts("summarization"),
        "document summary": list(contexts("summarization"))[::-1],
        "chat history summary": (message.content for chat in chats for message in chat.messages),
        "text comprehension": contexts("rag"),
        "translation": questions("translation"),
        "sentiment classification": questions("mt_bench"),
    }
    words = {name: [word for text in found for word in text.split()] for name, found in texts.items()}
    return TaskTexts({name: found or ["word"] for name, found in words.items()}, count_tokens)


def own_texts(prompts: Prompts, count_tokens: Callable[[str], int]) -> TaskTexts:
    """Return the same words for all tasks: without workloads, and for models that know few words."""
    words = " ".join(prompts.take(500) for _ in range(4)).split()
    return TaskTexts({task.name: words for task in TASKS}, count_tokens)


class _SpecBench(BaseModel):
    category: str
    context: str = ""
    question: str = ""


class _Message(BaseModel):
    content: str


class _Conversation(BaseModel):
    messages: list[_Message]
