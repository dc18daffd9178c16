"""The server's metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..output.generation import Generation
from ..service import LocalRuntime

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one server. Those of its engine are read whenever the text is generated."""

    def __init__(self, runtime: LocalRuntime) -> None:
        """Create metrics for a server of ``runtime``."""
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(runtime))
        labels = ("path", "status")
        self.responses = Counter(
            "agentrt_http_responses", "Responses by route and status.", labels, registry=self._registry
        )
        self._tokens = Counter(
            "agentrt_answer_tokens",
            "Tokens of generations by kind: prompt, cached (of the prompt) and completion.",
            ("kind",),
            registry=self._registry,
        )
        self._repaired = Counter(
            "agentrt_repaired_tool_calls",
            "Tool calls whose name or arguments were repaired.",
            registry=self._registry,
        )
        self._first_token = Histogram(
            "agentrt_time_to_first_token_seconds",
            "Time from request to first token.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._total = Histogram(
            "agentrt_answer_seconds",
            "Time from request to last token.",
            buckets=_SECONDS,
            registry=self._registry,
        )

    def record(self, generation: Generation) -> None:
        """Count a finished generation."""
        usage, timing = generation.usage, generation.timing
        self._tokens.labels("prompt").inc(usage.prompt_tokens)
        self._tokens.labels("cached").inc(usage.cached_tokens)
        self._tokens.labels("completion").inc(usage.completion_tokens)
        self._first_token.observe(timing.time_to_first_token_s)
        self._total.observe(timing.total_s)
        self._repaired.inc(generation.repaired_calls)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _EngineCollector(Collector):
    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        statistics = self._runtime.statistics()
        engine = statistics.engine
        for name, help_text, value in (
            ("agentrt_sequences_running", "Sequences that hold KV blocks.", engine.running),
            ("agentrt_sequences_waiting", "Sequences that hold no KV blocks.", engine.waiting),
            ("agentrt_kv_blocks", "Blocks of the KV cache.", statistics.blocks),
            ("agentrt_kv_blocks_free", "Free blocks of the KV cache.", statistics.free_blocks),
            (
                "agentrt_engine_seconds_since_progress",
                "Time since the last kernel ended; 0 while the engine is idle.",
                engine.seconds_since_progress,
            ),
        ):
            yield GaugeMetricFamily(name, help_text, value=value)
        for name, help_text, value in (
            ("agentrt_engine_steps", "Completed forward passes.", engine.steps),
            ("agentrt_engine_computed_tokens", "Tokens computed by the model.", engine.computed_tokens),
            ("agentrt_engine_sampled_tokens", "Sampled tokens.", engine.sampled_tokens),
            ("agentrt_engine_drafted_tokens", "Verified draft tokens.", engine.drafted_tokens),
            ("agentrt_engine_accepted_tokens", "Accepted draft tokens.", engine.accepted_tokens),
            (
                "agentrt_engine_given_tokens",
                "Tokens of cached tool outputs appended to sequences.",
                engine.given_tokens,
            ),
            (
                "agentrt_engine_preemptions",
                "Forward passes paused between two kernels for a more urgent one.",
                engine.preemptions,
            ),
            ("agentrt_requests_finished", "Finished requests.", engine.finished),
            ("agentrt_requests_cancelled", "Cancelled requests.", engine.cancelled),
        ):
            yield CounterMetricFamily(name, help_text, value=value)
