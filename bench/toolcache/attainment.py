"""Measured savings against those that Eqs. 4-6 of SpecTools predict from the same run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from agentrt.perfmodel import EngineTimes, EngineTurn

from . import tools
from .agents import Done
from .repetition import Repetition
from .sides import CLIENT_SIDE, ENGINE_SIDE, PREFIX_CACHED
from .tasks import Task


@dataclass(frozen=True, slots=True)
class Prediction:
    """Eqs. 5 and 6 for one task, in seconds, from its own prefix-cached run.

    The time a token (delta) is taken from the same run, so that the machine's drift is in both. Reading is
    the same in both equations. ``round_trip_s`` is 2o.
    """

    task: Task
    cached: Done
    round_trip_s: float

    @property
    def reasons(self) -> bool:
        """Whether the model writes text before its call, at least two tokens: delta is measured on them."""
        return self.task.reasoning_tokens > 1 and self.cached.reasoned_s > self.cached.first_s

    @property
    def decode_s(self) -> float:
        """Seconds a token, while reasoning; only where the model reasons."""
        return (self.cached.reasoned_s - self.cached.first_s) / (self.task.reasoning_tokens - 1)

    @property
    def fits(self) -> bool:
        """Whether the tool is done while the model reasons, as Eq. 6 assumes: by T, g and delta R alone."""
        reasoning = self.task.reasoning_tokens
        return self.reasons and tools.DRAFT_S + self.task.latency_s < reasoning * self.decode_s

    @property
    def saved_s(self) -> float:
        """Eq. 5 minus Eq. 6: what O1, O2 and O3 save together."""
        return self._saved(self.task.latency_s)

    @property
    def saved_by_engine_s(self) -> float:
        """What O2 and O3 save of that: as much as with a tool that takes no time."""
        return self._saved(0.0)

    def _saved(self, tool_s: float) -> float:
        turn = EngineTurn(
            reasoning_tokens=self.task.reasoning_tokens,
            call_tokens=max(1, self.cached.first_tokens - self.task.reasoning_tokens),
            result_tokens=max(0, self.cached.output_tokens),
            tool_s=tool_s,
        )
        prompt = max(1, self.cached.prompt_tokens)
        times = EngineTimes(self.round_trip_s / 2, 0.0, self.decode_s, prompt, [turn])
        return times.cached() - times.speculative(1.0)


def predictions(measured: Repetition, round_trip_s: float) -> list[Prediction]:
    """Return the prediction for each task."""
    cached = measured.of(PREFIX_CACHED)
    return [Prediction(task, done, round_trip_s) for task, done in zip(measured.tasks, cached, strict=True)]


def attainments(measured: Repetition, predicted: Sequence[Prediction]) -> dict[str, float]:
    """Return measured by predicted savings of the engine side with right drafts.

    They are sums over the tasks whose tool is done while the model reasons; whether the engine has answered
    the call does not matter: a saving that is predicted and does not come is a loss. What is compared begins
    with the last word before the call, since the same was done up to there.
    """
    fitting = [number for number, each in enumerate(predicted) if each.fits]
    if not fitting:
        return {}

    def seconds(done: Sequence[Done]) -> float:
        return sum(done[number].after_reasoning_s for number in fitting)

    engine = seconds(measured.of(ENGINE_SIDE))
    all_saved = sum(predicted[number].saved_s for number in fitting)
    engine_saved = sum(predicted[number].saved_by_engine_s for number in fitting)
    return {
        "eq6_attainment": (seconds(measured.of(PREFIX_CACHED)) - engine) / all_saved,
        "eq6_attainment_over_client_side": (seconds(measured.of(CLIENT_SIDE)) - engine) / engine_saved,
    }


def decode_s(predicted: Sequence[Prediction]) -> float | None:
    """Return the median seconds a token, while reasoning; None if the model never reasons."""
    return statistics.median([each.decode_s for each in predicted if each.reasons] or [0.0]) or None
