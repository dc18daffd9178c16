"""What client-side speculation can save: SpecTools §3.1.1, Eqs. 1-3 and Lemma 1, as code.

The symbols of the paper: ``G`` is the main model's time for one turn, ``g`` the predictor's, ``T`` the
tool's, all in seconds; alpha, the claim rate, is the share of tool calls that were predicted.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """The mean times of one turn, in seconds; all positive (``ConfigurationError`` otherwise)."""

    generation: float
    draft: float
    tool: float

    def __post_init__(self) -> None:
        """Refuse what the model is not defined for."""
        for name in ("generation", "draft", "tool"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}: use a time above 0 seconds.")

    def standard(self, turns: int = 1) -> float:
        """``T_standard`` of Eq. 1: each turn generates, then waits for its tool."""
        return turns * (self.generation + self.tool)

    def speculative(self, claim_rate: float, turns: int = 1) -> float:
        """``T_spec`` of Eq. 1: a claimed call waits for the slower of the two paths."""
        if not 0 <= claim_rate <= 1:
            raise ConfigurationError(f"claim_rate is {claim_rate}: use a share between 0 and 1.")
        claimed = max(self.generation, self.draft + self.tool)
        return turns * (claim_rate * claimed + (1 - claim_rate) * (self.generation + self.tool))

    def speedup(self, claim_rate: float) -> float:
        """``S_spec`` of Eq. 2."""
        return self.standard() / self.speculative(claim_rate)

    def saved_share(self, claim_rate: float) -> float:
        """The share of the standard time that speculation saves, ``1 - 1/S``; at most one half."""
        return 1 - self.speculative(claim_rate) / self.standard()

    def pays(self, claim_rate: float) -> bool:
        """Whether speculation saves anything (Eq. 3: alpha > 0 and g < G)."""
        return claim_rate > 0 and self.draft < self.generation

    def speedup_bound(self) -> float:
        """Lemma 1.3: no claim rate gives a higher speedup than this, and this is below 2."""
        return 2 - 2 * self.draft / (self.generation + self.draft + self.tool)
