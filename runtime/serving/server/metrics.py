"""The server's metrics for Prometheus. All that grows with a text is coarse: none tells the length of one."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from ...engine.output.generation import Generation
from ...pool.background.conditions import Reason
from ...pool.background.job import JobStatus
from ...pool.background.job_queue import JobQueue
from ...pool.model_pool import ModelPool
from ...pool.pooled_model import ModelStatus, PooledModel

_TOKENS: Final = (64, 256, 1024, 4096, 16_384, 65_536)
_TOKEN_STEP: Final = 256
_BYTES_STEP: Final = 2**20
"""Tokens, whose blocks are counted so coarsely, too, and bytes."""
_STEPS: Final = {"_tokens": _TOKEN_STEP, "_steps": _TOKEN_STEP, "_chunks_recomputed": 8}
"""How exact counters are, by the ends of their names: a forward pass may be one token, a chunk is 32."""
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUEUED_SECONDS: Final = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)
_RUN_STEP: Final = 10
"""Seconds of an app's background jobs, which are counted so coarsely."""

_GAUGES: Final = (
    ("agentrt_model_loaded", "1 for a model that is loaded, else 0."),
    ("agentrt_model_memory_bytes", "Bytes that a loaded model takes of the memory budget."),
    ("agentrt_sequences_running", "Sequences that hold KV blocks."),
    ("agentrt_sequences_waiting", "Sequences that hold no KV blocks."),
    ("agentrt_kv_blocks", "Blocks of the KV cache."),
    ("agentrt_kv_blocks_free", "Free blocks of the KV cache, coarse."),
    ("agentrt_contexts_on_disk", "Contexts in the folder of the model, with those of KV alone."),
    ("agentrt_context_disk_bytes", "Bytes of their files, in MiB begun."),
    ("agentrt_context_refused_files", "Damaged texts of contexts that were set aside."),
    (
        "agentrt_engine_seconds_since_progress",
        "Time since the last kernel ended; 0 while the engine is idle.",
    ),
)
_ENGINE_COUNTERS: Final = (
    ("agentrt_engine_steps", "Completed forward passes.", "steps"),
    ("agentrt_engine_computed_tokens", "Tokens computed by the model.", "computed_tokens"),
    ("agentrt_engine_sampled_tokens", "Sampled tokens.", "sampled_tokens"),
    ("agentrt_engine_drafted_tokens", "Verified draft tokens.", "drafted_tokens"),
    ("agentrt_engine_accepted_tokens", "Accepted draft tokens.", "accepted_tokens"),
    ("agentrt_engine_given_tokens", "Tokens of cached tool outputs appended to sequences.", "given_tokens"),
    (
        "agentrt_engine_preemptions",
        "Forward passes paused between two kernels for a more urgent one.",
        "preemptions",
    ),
    ("agentrt_contexts_loaded", "Requests for which stored chunks were loaded.", "loaded_contexts"),
    ("agentrt_chunks_recomputed", "Stored chunks that were computed all the same.", "recomputed_chunks"),
    ("agentrt_context_switch_seconds", "Seconds that requests waited for their chunks.", "switch_s"),
    ("agentrt_requests_finished", "Finished requests.", "finished"),
    ("agentrt_requests_cancelled", "Cancelled requests.", "cancelled"),
)
"""Name, help and field of :class:`EngineStatistics`."""


class _AnswerTokens(Collector):
    """Counts of answers by their tokens of each kind, without the sum. For one event loop.

    Prometheus' own histograms have a sum, by which two scrapes tell the exact value that came between them.
    """

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(_TOKENS) + 1))

    def observe(self, tokens: int, model: str, kind: str) -> None:
        self._counts[model, kind][bisect_left(_TOKENS, tokens)] += 1

    def collect(self) -> Iterator[Metric]:
        text = "Generations by their tokens of each kind: prompt, cached (of the prompt) and completion."
        family = HistogramMetricFamily("agentrt_answer_tokens", text, labels=("model", "kind"))
        names = [*map(floatToGoString, _TOKENS), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = list(zip(names, itertools.accumulate(counts), strict=True))
            family.add_metric(labels, buckets, sum_value=None)
        yield family


class Metrics:
    """The metrics of one server. Those of its models are read whenever the text is generated."""

    def __init__(self, pool: ModelPool) -> None:
        """Create metrics for a server of ``pool``."""
        self._registry = registry = CollectorRegistry()
        registry.register(_ModelCollector(pool))
        self.responses = Counter(
            "agentrt_http_responses", "Responses by route and status.", ("path", "status"), registry=registry
        )
        self._tokens = _AnswerTokens()
        registry.register(self._tokens)
        self._repaired = Counter(
            "agentrt_repaired_tool_calls",
            "Tool calls whose name or arguments were repaired.",
            ("model",),
            registry=registry,
        )
        self._first_token, self._total = (
            Histogram(
                name,
                f"Time from request to {end} token. Loading the model is not included.",
                ("model",),
                buckets=_SECONDS,
                registry=registry,
            )
            for name, end in (
                ("agentrt_time_to_first_token_seconds", "first"),
                ("agentrt_answer_seconds", "last"),
            )
        )

    def watch(self, queue: JobQueue) -> None:
        """Tell of the background jobs of ``queue``, too."""
        self._registry.register(_QueueCollector(queue))
        queued = Histogram(
            "agentrt_background_queued_seconds",
            "Time from a background response's request to its first computing.",
            buckets=_QUEUED_SECONDS,
            registry=self._registry,
        )
        queue.on_begin = queued.observe

    def record(self, model: str, generation: Generation) -> None:
        """Count a finished generation of the model of this name."""
        usage, timing = generation.usage, generation.timing
        self._tokens.observe(usage.prompt_tokens, model, "prompt")
        self._tokens.observe(usage.cached_tokens, model, "cached")
        self._tokens.observe(usage.completion_tokens, model, "completion")
        self._first_token.labels(model).observe(timing.time_to_first_token_s)
        self._total.labels(model).observe(timing.total_s)
        self._repaired.labels(model).inc(generation.repaired_calls)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _ModelCollector(Collector):
    def __init__(self, pool: ModelPool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        models = self._pool.models
        for (name, help_text), *values in zip(_GAUGES, *map(_gauges_of, models), strict=True):
            gauge = GaugeMetricFamily(name, help_text, labels=("model",))
            for model, value in zip(models, values, strict=True):
                gauge.add_metric((model.name,), value)
            yield gauge
        counters = [(name, text, [m.count(field) for m in models]) for name, text, field in _ENGINE_COUNTERS]
        counters.append(("agentrt_model_loads", "Times a model was loaded.", [m.loads for m in models]))
        for name, help_text, counts in counters:
            counter = CounterMetricFamily(name, help_text, labels=("model",))
            for model, count in zip(models, counts, strict=True):
                counter.add_metric((model.name,), _coarse(name, count))
            yield counter


class _QueueCollector(Collector):
    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        counts = Tally(job.status for job in self._queue.table.all())
        jobs = GaugeMetricFamily(
            "agentrt_background_jobs", "Background responses that are kept, by status.", labels=("status",)
        )
        for status in JobStatus:
            jobs.add_metric((status.value,), counts[status])
        yield jobs
        waits = GaugeMetricFamily(
            "agentrt_background_waiting",
            "1 for the reason for which no background response is computed, else 0.",
            labels=("reason",),
        )
        unended = any(counts[status] for status in JobStatus if not status.ended)
        obstacle = self._queue.obstacle if unended else None  # without jobs nobody looks at the machine
        for reason in Reason:
            waits.add_metric((reason.value,), obstacle is not None and obstacle.reason is reason)
        yield waits
        text = f"Seconds for which background responses of an app were computed, in steps of {_RUN_STEP}."
        seconds = CounterMetricFamily("agentrt_background_run_seconds", text, labels=("app",))
        for app, run_s in self._queue.run_s.items():
            seconds.add_metric((app,), run_s - run_s % _RUN_STEP)
        yield seconds


def _coarse(name: str, count: float) -> float:
    """Return a count in steps: two exact ones would tell the length of the prompt or answer between them."""
    step = next((step for end, step in _STEPS.items() if name.endswith(end)), 1)
    return count - count % step if step > 1 else count


def _rounded_up(count: int, step: int) -> int:
    return -(-count // step) * step


def _gauges_of(model: PooledModel) -> tuple[float, ...]:
    """Return the values of :data:`_GAUGES`."""
    if model.runtime is None:
        return (0.0,) * len(_GAUGES)
    statistics = model.runtime.statistics()
    files, step = statistics.context_files, max(1, _TOKEN_STEP // statistics.block_tokens)
    used = _rounded_up(statistics.blocks - statistics.free_blocks, step)
    disk_bytes = 0 if files is None else _rounded_up(files.text_bytes + files.chunk_bytes, _BYTES_STEP)
    return (
        model.status is ModelStatus.LOADED,
        model.memory_bytes,
        statistics.engine.running,
        statistics.engine.waiting,
        statistics.blocks,
        max(0, statistics.blocks - used),
        0 if files is None else files.contexts,
        disk_bytes,
        0 if files is None else files.refused_files,
        statistics.engine.seconds_since_progress,
    )
