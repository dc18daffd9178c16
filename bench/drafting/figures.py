"""The figures of the drafting bench, from what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from .agent_turns import AgentTurn
from .comparison import SetResult
from .equal_width import RecordedAnswer, sam_tokens_a_pass
from .peers import GENAI_LOOKUP
from .sides import OURS, SUFFIX_DECODING, VANILLA


@dataclass
class Measured:
    """All that was measured of one model."""

    results: list[SetResult] = field(default_factory=list)
    at_width: str = ""
    """Name of our side of fixed width."""
    max_tokens: int = 0
    identical: float = 0.0
    no_match_slowdowns: list[float] = field(default_factory=list)
    batch_ratios: list[float] = field(default_factory=list)
    agent_turns: list[AgentTurn] = field(default_factory=list)

    @property
    def context_heavy(self) -> list[SetResult]:
        """The sets whose answers repeat their contexts."""
        return [each for each in self.results if each.context_heavy]

    def figures(self) -> dict[str, float]:
        """Return the figures; those that were not measured are left out."""
        found = {"tokens_identical": self.identical}
        heavy = self.context_heavy
        found["speedup_vs_vanilla"] = _ratio(heavy, VANILLA)
        calls = [each for each in self.results if each.calls]
        if calls:
            found["tool_call_speedup"] = _ratio(calls, VANILLA)
        if all(GENAI_LOOKUP in each.answers for each in heavy):
            found["ratio_vs_openvino_prompt_lookup"] = _ratio(heavy, GENAI_LOOKUP)
        found["accept_len_vs_sam_equal_width"] = self._acceptance_ratio()
        found["speed_vs_suffix_rule"] = _ratio(heavy, SUFFIX_DECODING)
        found["slowest_set_vs_vanilla"] = min(each.speedup(OURS) for each in self.results)
        found |= {name: statistics.median(values) for name, values in self.repetitions().items()}
        if self.agent_turns:
            vanilla = sum(each.vanilla_s for each in self.agent_turns)
            found["agent_turn_end_to_end_ratio"] = vanilla / sum(each.ours_s for each in self.agent_turns)
        return found

    def repetitions(self) -> dict[str, list[float]]:
        """Return what was measured several times, by the figure that is its median."""
        return {
            "no_match_slowdown_pct": self.no_match_slowdowns,
            "batch8_drafting_ratio": self.batch_ratios,
        }

    def sam_at_equal_width(self, results: Sequence[SetResult]) -> float:
        """Return SAM's tokens a pass in these sets where it verifies as many tokens as our side at width."""
        apps = [
            [
                RecordedAnswer(prompt, answer.token_ids)
                for prompt, answer in zip(each.prompts, each.answers[VANILLA], strict=True)
            ]
            for each in results
        ]
        return sam_tokens_a_pass(apps, self.max_tokens, _verified_a_pass(results, self.at_width))

    def _acceptance_ratio(self) -> float:
        heavy = self.context_heavy
        answers = [answer for each in heavy for answer in each.answers[self.at_width]]
        passes = max(1, sum(each.passes for each in answers))
        return sum(each.decoded for each in answers) / passes / self.sam_at_equal_width(heavy)


def _ratio(results: Sequence[SetResult], side: str) -> float:
    """Return our speed over that of a side: the decode times of a token, of which every set counts alike."""
    ours = sum(each.ms_per_token(OURS) for each in results)
    return sum(each.ms_per_token(side) for each in results) / ours


def _verified_a_pass(results: Sequence[SetResult], side: str) -> float:
    answers = [answer for each in results for answer in each.answers[side]]
    return sum(each.verified for each in answers) / max(1, sum(each.passes for each in answers))
