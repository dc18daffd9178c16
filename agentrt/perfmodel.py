"""The performance model of SpecTools: §3.1.1 (Eqs. 1-3, Lemma 1) and §3.2.1 (Eqs. 4-6).

The symbols of the paper: ``G`` is the main model's time for one turn, ``g`` the predictor's, ``T`` the
tool's, all in seconds; alpha, the claim rate, is the share of tool calls that were predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import ConfigurationError

__all__ = ["EngineTimes", "EngineTurn", "TurnTimes", "saved_seconds"]


def saved_seconds(lead: float, tool: float) -> float:
    """Return the saving of one claimed call by Eq. 1: ``(G + T) - max{G, g + T}``; ``lead`` is ``G - g``."""
    return max(0.0, min(lead, tool))


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """The mean times of one turn, in seconds; raises ``ConfigurationError`` unless all are positive."""

    generation: float
    draft: float
    tool: float

    def __post_init__(self) -> None:
        """Refuse values for which the model is not defined."""
        for name in ("generation", "draft", "tool"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}: use a time above 0 seconds.")

    def standard(self, turns: int = 1) -> float:
        """Return ``T_standard`` of Eq. 1: each turn generates, then waits for its tool."""
        return turns * (self.generation + self.tool)

    def speculative(self, claim_rate: float, turns: int = 1) -> float:
        """Return ``T_spec`` of Eq. 1: a claimed call waits for the slower of the two paths."""
        if not 0 <= claim_rate <= 1:
            raise ConfigurationError(f"claim_rate is {claim_rate}: use a share between 0 and 1.")
        claimed = max(self.generation, self.draft + self.tool)
        return turns * (claim_rate * claimed + (1 - claim_rate) * (self.generation + self.tool))

    def speedup(self, claim_rate: float) -> float:
        """Return ``S_spec`` of Eq. 2."""
        return self.standard() / self.speculative(claim_rate)

    def saved_share(self, claim_rate: float) -> float:
        """Return the share of the standard time that speculation saves, ``1 - 1/S``; at most one half."""
        return 1 - self.speculative(claim_rate) / self.standard()

    def pays(self, claim_rate: float) -> bool:
        """Whether speculation saves time (Eq. 3: alpha > 0 and g < G)."""
        return claim_rate > 0 and self.draft < self.generation

    def speedup_bound(self) -> float:
        """Return the bound of Lemma 1.3 on the speedup at any claim rate; it is below 2."""
        return 2 - 2 * self.draft / (self.generation + self.draft + self.tool)


@dataclass(frozen=True, slots=True)
class EngineTurn:
    """One turn in the engine: tokens decoded and read, and the tool's time in seconds."""

    reasoning_tokens: int
    call_tokens: int
    result_tokens: int
    tool_s: float

    def __post_init__(self) -> None:
        """Refuse negative numbers, and a call of no tokens."""
        if min(self.reasoning_tokens, self.result_tokens) < 0 or not self.tool_s >= 0 or self.call_tokens < 1:
            raise ConfigurationError(
                f"{self} cannot be used. Use counts and times from 0, and a call of at least 1 token."
            )


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """The engine-side model of SpecTools §3.2.1: a run of consecutive turns, each ending in a tool call.

    ``overhead`` is the seconds of one way through the API and into the batch (o), ``prefill`` and ``decode``
    are seconds a token (phi, delta), ``prompt_tokens`` is the first prompt (X_1).
    """

    overhead: float
    prefill: float
    decode: float
    prompt_tokens: int
    turns: Sequence[EngineTurn]

    def __post_init__(self) -> None:
        """Refuse values for which the model is not defined."""
        if not min(self.overhead, self.prefill, self.decode) >= 0 or self.prompt_tokens < 1 or not self.turns:
            raise ConfigurationError(
                "the times of an engine cannot be used. Use times from 0, a prompt and a turn."
            )

    def vanilla(self) -> float:
        """Return ``T_vanilla`` of Eq. 4: each turn reads the whole history again."""
        read, history = 0, self.prompt_tokens
        for turn in self.turns:
            read += history
            history += turn.call_tokens + turn.result_tokens
        return self._round_trips() + self.prefill * read + self._decoding() + self._waiting()

    def cached(self) -> float:
        """Return ``T_cached`` of Eq. 5: with a prefix cache each turn reads new tokens only."""
        return self._round_trips() + self._reading_once() + self._decoding() + self._waiting()

    def speculative(self, claim_rate: float) -> float:
        """Return ``T*_spec`` of Eq. 6: a claimed call is verified in one forward pass and leaves no gap."""
        if not 0 <= claim_rate <= 1:
            raise ConfigurationError(f"claim_rate is {claim_rate}: use a share between 0 and 1.")
        missed = 1 - claim_rate
        reasoning = sum(turn.reasoning_tokens for turn in self.turns)
        calls = sum(turn.call_tokens for turn in self.turns)
        decoded = claim_rate * len(self.turns) + reasoning + missed * calls
        return missed * (self._round_trips() + self._waiting()) + self._reading_once() + self.decode * decoded

    def _round_trips(self) -> float:
        return 2 * len(self.turns) * self.overhead

    def _reading_once(self) -> float:
        return self.prefill * (
            self.prompt_tokens + sum(turn.call_tokens + turn.result_tokens for turn in self.turns)
        )

    def _decoding(self) -> float:
        return self.decode * sum(turn.reasoning_tokens + turn.call_tokens for turn in self.turns)

    def _waiting(self) -> float:
        return sum(turn.tool_s for turn in self.turns)
