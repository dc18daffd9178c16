"""What retrieval costs a request of 32,768 tokens with a full history: time per forward pass, and memory."""

from __future__ import annotations

import random
import time
from typing import Final

_PROMPT_TOKENS: Final = 32_768
_PASSES: Final = 2000
_ANSWER_TOKENS: Final = 200
_VOCABULARY: Final = 32_000
_PASSAGES: Final = 64
_PASSAGE_TOKENS: Final = 100


def index_costs(prompt_tokens: int = _PROMPT_TOKENS, passes: int = _PASSES) -> dict[str, float]:
    """Draft ``passes`` times behind a text that repeats passages, as prompts with documents and tools do.

    Returns the figures: the 99th percentile of the CPU times, in milliseconds, of appending a token and
    drafting, and the MB of the index of the request and of its app's history.
    """
    import numpy as np

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
    return {
        "draft_ms_p99_at_32k": float(np.percentile(milliseconds, 99)),
        "memory_overhead_mb": sum(each.index.memory_bytes for each in (drafter._own, *history.sources)) / 1e6,
    }


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
