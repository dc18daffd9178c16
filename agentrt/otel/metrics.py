"""The metrics of generations, by the conventions for generative AI."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

from .api import follows_latest, meter

_TOKENS: Final = tuple(4**power for power in range(14))
_OPERATION_S: Final = tuple(0.01 * 2**power for power in range(14))
_FIRST_TOKEN_S: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1),
    *(0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
_PER_TOKEN_S: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured of one generation; seconds since the request was made."""

    input_tokens: int
    output_tokens: int
    first_token_s: float
    total_s: float


class GenerationMetrics:
    """The histograms of generations, of one version of the conventions."""

    def __init__(self) -> None:
        """Create the histograms of the process's meter. OpenTelemetry must be installed."""
        made = meter()
        self._latest = follows_latest()

        def histogram(name: str, unit: str, bounds: tuple[float, ...], text: str) -> Any:
            return made.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)

        self._usage = histogram(
            "gen_ai.client.token.usage", "{token}", _TOKENS, "Number of input and output tokens used."
        )
        self._client = histogram(
            "gen_ai.client.operation.duration", "s", _OPERATION_S, "Time from request to answer."
        )
        self._first_chunk = histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            _OPERATION_S,
            "Time from request to first chunk of a stream.",
        )
        self._per_chunk = histogram(
            "gen_ai.client.operation.time_per_output_chunk",
            "s",
            _OPERATION_S,
            "Time from the chunk before to each further one of a stream.",
        )
        self._server = histogram(
            "gen_ai.server.request.duration", "s", _OPERATION_S, "Time from request to last token."
        )
        self._first_token = histogram(
            "gen_ai.server.time_to_first_token", "s", _FIRST_TOKEN_S, "Time from request to first token."
        )
        self._per_token = histogram(
            "gen_ai.server.time_per_output_token", "s", _PER_TOKEN_S, "Time per token after the first."
        )

    def record(self, measured: Measured, attributes: dict[str, Any], *, served: bool) -> None:
        """Record an answer. Where it is not ``served`` to another process, this one is also the client."""
        self._server.record(measured.total_s, attributes)
        if measured.output_tokens:
            self._first_token.record(measured.first_token_s, attributes)
        if measured.output_tokens > 1:
            rest_s = measured.total_s - measured.first_token_s
            self._per_token.record(rest_s / (measured.output_tokens - 1), attributes)
        if served:
            return
        self._client.record(measured.total_s, attributes)
        for kind, tokens in (("input", measured.input_tokens), ("output", measured.output_tokens)):
            self._usage.record(tokens, {**attributes, "gen_ai.token.type": kind})

    def record_chunk(self, waited_s: float, attributes: dict[str, Any], *, first: bool) -> None:
        """Record a chunk of a stream, by the latest conventions: ``waited_s`` since the request if it is the
        ``first``, and else since the one before.
        """
        if self._latest:
            (self._first_chunk if first else self._per_chunk).record(waited_s, attributes)

    def record_failure(self, total_s: float, attributes: dict[str, Any], *, served: bool) -> None:
        """Record a request that failed after ``total_s``; ``attributes`` say how."""
        self._server.record(total_s, attributes)
        if not served:
            self._client.record(total_s, attributes)


def generation_metrics() -> GenerationMetrics:
    """Return the histograms by the conventions that the user follows."""
    return _of_version(follows_latest())


@functools.cache
def _of_version(_: bool) -> GenerationMetrics:
    return GenerationMetrics()
