"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..output.generation import Generation
from ..service import LocalRuntime

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one server; those of its engine are read when they are asked for."""

    def __init__(self, runtime: LocalRuntime) -> None:
        """Nothing has happened yet."""
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(runtime))
        labels = ("path", "status")
        self.responses = Counter("agentrt_http_responses", "Responses.", labels, registry=self._registry)
        self._tokens = Counter(
            "agentrt_answer_tokens", "Tokens of answers by kind.", ("kind",), registry=self._registry
        )
        self._first_token = Histogram(
            "agentrt_time_to_first_token_seconds", "Of answers.", buckets=_SECONDS, registry=self._registry
        )
        self._total = Histogram(
            "agentrt_answer_seconds", "From request to last token.", buckets=_SECONDS, registry=self._registry
        )

    def answered(self, generation: Generation) -> None:
        """Count one answer."""
        usage, timing = generation.usage, generation.timing
        self._tokens.labels("prompt").inc(usage.prompt_tokens)
        self._tokens.labels("cached").inc(usage.cached_tokens)
        self._tokens.labels("completion").inc(usage.completion_tokens)
        self._first_token.observe(timing.time_to_first_token_s)
        self._total.observe(timing.total_s)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)


class _EngineCollector(Collector):
    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        statistics = self._runtime.statistics()
        engine = statistics.engine
        for name, help_text, value in (
            ("agentrt_sequences_running", "Sequences that hold KV blocks.", engine.running),
            ("agentrt_sequences_waiting", "Sequences that hold none yet.", engine.waiting),
            ("agentrt_kv_blocks", "Blocks of the KV arena.", statistics.blocks),
            ("agentrt_kv_blocks_free", "Blocks that nobody holds.", statistics.free_blocks),
            (
                "agentrt_engine_seconds_since_progress",
                "Since the last forward pass, while there is work.",
                engine.seconds_since_progress,
            ),
        ):
            yield GaugeMetricFamily(name, help_text, value=value)
        for name, help_text, value in (
            ("agentrt_engine_steps", "Forward passes.", engine.steps),
            ("agentrt_engine_computed_tokens", "Tokens that went through the model.", engine.computed_tokens),
            ("agentrt_engine_sampled_tokens", "Tokens that were sampled.", engine.sampled_tokens),
            ("agentrt_engine_drafted_tokens", "Drafted tokens that were verified.", engine.drafted_tokens),
            ("agentrt_engine_accepted_tokens", "Drafted tokens that were right.", engine.accepted_tokens),
            ("agentrt_engine_given_tokens", "Tokens of cached tool outputs.", engine.given_tokens),
            ("agentrt_engine_preemptions", "Sequences that lost their blocks.", engine.preemptions),
            ("agentrt_requests_finished", "Requests that came to their end.", engine.finished),
            ("agentrt_requests_cancelled", "Requests that were given up.", engine.cancelled),
        ):
            yield CounterMetricFamily(name, help_text, value=value)
