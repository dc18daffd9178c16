"""Settings of openvino_genai's continuous batching in the benches."""

from __future__ import annotations

from typing import Any


def continuous_batching(cache_gib: int) -> Any:
    """Return a ``SchedulerConfig``: at most 16 sequences, chunked prefill in chunks of 256 tokens.

    A cache of 0 GiB grows as it is needed.
    """
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = cache_gib
    scheduler.max_num_batched_tokens = 256
    scheduler.dynamic_split_fuse = True
    scheduler.max_num_seqs = 16
    return scheduler
