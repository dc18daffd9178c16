"""What retrieval costs a request of 32,768 tokens with a full history: time per forward pass, and memory."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Final

from ..common.report import Table

_PROMPT_TOKENS: Final = 32_768
_PASSES: Final = 2000
_ANSWER_TOKENS: Final = 200
_VOCABULARY: Final = 32_000
_PASSAGES: Final = 64
_PASSAGE_TOKENS: Final = 100


@dataclass(frozen=True, slots=True)
class IndexCosts:
    """Costs of a :class:`RetrievalDrafter` and of the history of its app."""

    draft_ms_p99_at_32k: float
    """Milliseconds of appending a token and drafting: the 99th percentile of the CPU times of all passes."""
    draft_ms_median_at_32k: float
    memory_overhead_mb: float
    """MB of the index of the request and of its app's history."""
    bytes_a_token: float
    """Bytes of both for each of their tokens."""

    def figures(self) -> dict[str, float]:
        """Return the figures of the report."""
        return {
            "draft_ms_p99_at_32k": self.draft_ms_p99_at_32k,
            "memory_overhead_mb": self.memory_overhead_mb,
        }

    def table(self) -> Table:
        """Figure 12: what drafting adds to the memory of a request, and what it costs a forward pass."""
        return Table(
            title="what retrieval takes at 32,768 tokens (sd.npu, Fig. 12)",
            columns=("drafting ms a pass", "99th percentile", "MB", "bytes a token"),
            rows=(
                (
                    round(self.draft_ms_median_at_32k, 3),
                    round(self.draft_ms_p99_at_32k, 3),
                    round(self.memory_overhead_mb, 1),
                    round(self.bytes_a_token, 1),
                ),
            ),
        )


def index_costs(prompt_tokens: int = _PROMPT_TOKENS, passes: int = _PASSES) -> IndexCosts:
    """Draft ``passes`` times behind a text that repeats passages, as prompts with documents and tools do."""
    import numpy as np

    from agentrt.runtime.drafting.app_history import AppHistory
    from agentrt.runtime.drafting.history_store import MAX_TOKENS
    from agentrt.runtime.drafting.retrieval import RetrievalDrafter

    text = _Text()
    history = AppHistory()
    history.restore(text.next_tokens(MAX_TOKENS))
    kept = MAX_TOKENS
    while len(history.sources) < 3:  # the newest answers, those before, and those of earlier processes
        history.add(text.next_tokens(_ANSWER_TOKENS))
        kept += _ANSWER_TOKENS
    drafter = RetrievalDrafter(text.next_tokens(prompt_tokens), prompt_tokens + passes, history)
    drafter.draft()  # the first one builds the index of the prompt, which belongs to prefill
    milliseconds = []
    for token in text.next_tokens(passes):
        began = time.thread_time()
        drafter.append(token)
        drafter.draft()
        milliseconds.append((time.thread_time() - began) * 1000)
    median, p99 = np.percentile(milliseconds, [50, 99])
    memory = drafter.memory_bytes + history.memory_bytes
    return IndexCosts(float(p99), float(median), memory / 1e6, memory / (prompt_tokens + passes + kept))


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
