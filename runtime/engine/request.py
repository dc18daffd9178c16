"""One request in the engine, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..scheduler.sequence import Sequence
from ..toolcache.proposer import ToolCacheProposer
from ..toolcache.tool_turn import ToolTurn
from .answer_text import AnswerText
from .sampler import TokenSampler

OnText: TypeAlias = Callable[["str | ToolTurn"], None]
StopReason: TypeAlias = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What became of one request. Times are seconds since it arrived."""

    text: str
    token_ids: tuple[int, ...]
    """Every sampled token, also one that ended the answer."""
    stop_reason: StopReason
    prompt_tokens: int
    """Tokens that were not sampled: the prompt's, and those of tools' outputs behind it."""
    cached_tokens: int
    """Prompt tokens whose keys and values were already in memory."""
    queued_s: float
    time_to_first_token_s: float
    total_s: float


class EngineRequest:
    """One submitted request. The engine thread owns everything but :attr:`completion`."""

    def __init__(
        self,
        sequence: Sequence,
        sampler: TokenSampler,
        answer: AnswerText,
        *,
        end_tokens: frozenset[int],
        max_total_tokens: int,
        on_text: OnText | None,
        tool_cache: ToolCacheProposer | None,
    ) -> None:
        """``max_total_tokens`` bounds prompt and answer together."""
        self.completion: Future[RequestOutput] = Future()
        # From the start, so that nobody but the engine can decide how it ends.
        self.completion.set_running_or_notify_cancel()
        self.sequence = sequence
        self.sampler = sampler
        self.answer = answer
        self.end_tokens = end_tokens
        self.max_total_tokens = max_total_tokens
        self.on_text = on_text
        self.tool_cache = tool_cache
        self._turn_begins = 0
        self.started: float | None = None
        """When its first kernel was started."""
        self.first_token: float | None = None

    @property
    def turn_text(self) -> str:
        """What the model has written since the last turn of tools."""
        return self.answer.text[self._turn_begins :]

    def begin_turn(self, given: tuple[int, ...], most: int) -> None:
        """Go on behind tokens that were ``given``: they are not counted as the answer's."""
        assert self.tool_cache is not None
        self._turn_begins = len(self.answer.text)
        self.max_total_tokens = min(self.max_total_tokens + len(given), self.tool_cache.context_tokens, most)
        self.sampler.begin_turn(given)

    def complete(self, reason: StopReason, now: float) -> None:
        """Tell the one who waits what it came to."""
        sequence = self.sequence
        self.completion.set_result(
            RequestOutput(
                text=self.answer.text,
                token_ids=tuple(sequence.sampled_tokens),
                stop_reason=reason,
                prompt_tokens=len(sequence.tokens) - len(sequence.sampled_tokens),
                cached_tokens=sequence.cached_tokens or 0,
                queued_s=(self.started or now) - sequence.arrived,
                time_to_first_token_s=(self.first_token or now) - sequence.arrived,
                total_s=now - sequence.arrived,
            )
        )
